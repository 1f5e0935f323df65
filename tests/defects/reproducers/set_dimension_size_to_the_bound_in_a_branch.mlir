// DEFECT: a conditional with an array whose constant size is its bound does not compile.
// ARGS: (array([1, 2, 3], float32), array(True, bool_))
// WANT: (array(12, float32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<3xf32>, %p: tensor<i1>) -> tensor<f32> {
  %n = stablehlo.constant dense<3> : tensor<i32>
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<3xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<3>>
  %c = "stablehlo.if"(%p) ({
    %d = stablehlo.add %a, %a : tensor<?xf32, #stablehlo.bounds<3>>
    stablehlo.return %d : tensor<?xf32, #stablehlo.bounds<3>>
  }, {
    %d = stablehlo.multiply %a, %a : tensor<?xf32, #stablehlo.bounds<3>>
    stablehlo.return %d : tensor<?xf32, #stablehlo.bounds<3>>
  }) : (tensor<i1>) -> tensor<?xf32, #stablehlo.bounds<3>>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32, #stablehlo.bounds<3>>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
