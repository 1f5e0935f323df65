// DEFECT: an update element in bounds is ignored if its window is partly out of bounds.
// ARGS: (zeros(4,float32), array([3],int32), array([1,2],float32))
// WANT: (array([0,0,0,1],float32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xf32>, %i: tensor<1xi32>, %u: tensor<2xf32>) -> tensor<4xf32> {
  %r = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0>, indices_are_sorted = false, unique_indices = false} : (tensor<4xf32>, tensor<1xi32>, tensor<2xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
