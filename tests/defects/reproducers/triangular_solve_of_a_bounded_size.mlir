// DEFECT: triangular_solve of a bounded size does not compile.
// ARGS: (array([[2, 0], [1, 0]], float32), array([[6], [1]], float32), array(1, int32))
// WANT: (array(3, float32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x1xf32>, %n: tensor<i32>) -> tensor<f32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2x2xf32>, tensor<i32>) -> tensor<?x2xf32, #stablehlo.bounds<2, ?>>
  %b = stablehlo.set_dimension_size %a, %n, dim = 1 : (tensor<?x2xf32, #stablehlo.bounds<2, ?>>, tensor<i32>) -> tensor<?x?xf32, #stablehlo.bounds<2, 2>>
  %d = stablehlo.set_dimension_size %y, %n, dim = 0 : (tensor<2x1xf32>, tensor<i32>) -> tensor<?x1xf32, #stablehlo.bounds<2, ?>>
  %c = "stablehlo.triangular_solve"(%b, %d) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<?x?xf32, #stablehlo.bounds<2, 2>>, tensor<?x1xf32, #stablehlo.bounds<2, ?>>) -> tensor<?x1xf32, #stablehlo.bounds<2, ?>>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<?x1xf32, #stablehlo.bounds<2, ?>>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
