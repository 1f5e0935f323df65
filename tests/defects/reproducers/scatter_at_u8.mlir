// DEFECT: a scatter at element 100 of 257, an index of u8, drops the update.
// ARGS: (zeros(257, float32), array([[100]], uint8), array([1], float32))
// WANT: (array([0] * 100 + [1] + [0] * 156, float32),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main(%x: tensor<257xf32>, %i: tensor<1x1xui8>, %u: tensor<1xf32>) -> tensor<257xf32> {
  %r = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<257xf32>, tensor<1x1xui8>, tensor<1xf32>) -> tensor<257xf32>
  return %r : tensor<257xf32>
}
