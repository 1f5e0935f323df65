// DEFECT: a scatter of windows of bounded size does not compile if the sizes are different values.
// ARGS: (array([[1, 2, 3], [4, 5, 6]], float32), array(2, int32), array(2, int32), array([[10, 20, 30]], float32))
// WANT: (array(42, float32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2x3xf32>, %n: tensor<i32>, %m: tensor<i32>, %u: tensor<1x3xf32>) -> tensor<f32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 1 : (tensor<2x3xf32>, tensor<i32>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
  %b = stablehlo.set_dimension_size %u, %m, dim = 1 : (tensor<1x3xf32>, tensor<i32>) -> tensor<1x?xf32, #stablehlo.bounds<?, 3>>
  %i = stablehlo.constant dense<1> : tensor<1x1xi32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = "stablehlo.scatter"(%a, %i, %b) ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %l = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %l : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>, tensor<1x1xi32>, tensor<1x?xf32, #stablehlo.bounds<?, 3>>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
  %t = stablehlo.reduce(%s init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>, tensor<f32>) -> tensor<f32>
  return %t : tensor<f32>
}
