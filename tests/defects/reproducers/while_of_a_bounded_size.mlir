// DEFECT: a loop whose state is a single array of bounded size aborts.
// ARGS: (array([1, 2, 3], float32), array(2, int32))
// WANT: (array(12, float32),)
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main(%x: tensor<3xf32>, %n: tensor<i32>) -> tensor<f32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<3xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<3>>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %ten = stablehlo.constant dense<10.0> : tensor<f32>
  %c = stablehlo.while(%s = %a) : tensor<?xf32, #stablehlo.bounds<3>>
  cond {
    %t = stablehlo.reduce(%s init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32, #stablehlo.bounds<3>>, tensor<f32>) -> tensor<f32>
    %p = stablehlo.compare LT, %t, %ten : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %d = stablehlo.add %s, %s : tensor<?xf32, #stablehlo.bounds<3>>
    stablehlo.return %d : tensor<?xf32, #stablehlo.bounds<3>>
  }
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32, #stablehlo.bounds<3>>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
