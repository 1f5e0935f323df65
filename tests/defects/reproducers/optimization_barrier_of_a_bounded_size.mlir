// DEFECT: optimization_barrier of a bounded size does not compile.
// ARGS: (array([1, 2, 3], float32), array(2, int32))
// WANT: (array(3, float32),)
// OBSERVED: 0.10 error, 0.12 right
func.func @main(%x: tensor<3xf32>, %n: tensor<i32>) -> tensor<f32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<3xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<3>>
  %c = stablehlo.optimization_barrier %a : tensor<?xf32, #stablehlo.bounds<3>>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32, #stablehlo.bounds<3>>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
