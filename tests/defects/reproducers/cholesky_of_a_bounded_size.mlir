// DEFECT: cholesky of a matrix of bounded size includes undefined elements.
// ARGS: (array([[4, 0], [2, 5]], float32), array(1, int32))
// WANT: (array(2, float32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<2x2xf32>, %n: tensor<i32>) -> tensor<f32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2x2xf32>, tensor<i32>) -> tensor<?x2xf32, #stablehlo.bounds<2, ?>>
  %b = stablehlo.set_dimension_size %a, %n, dim = 1 : (tensor<?x2xf32, #stablehlo.bounds<2, ?>>, tensor<i32>) -> tensor<?x?xf32, #stablehlo.bounds<2, 2>>
  %c = stablehlo.cholesky %b, lower = true : tensor<?x?xf32, #stablehlo.bounds<2, 2>>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<?x?xf32, #stablehlo.bounds<2, 2>>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
