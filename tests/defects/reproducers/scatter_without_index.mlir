// DEFECT: only the last update of empty index vectors is applied.
// ARGS: (zeros(3,float32), zeros((2,0),int32), array([1,2],float32))
// WANT: (array([3,0,0],float32),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main(%x: tensor<3xf32>, %i: tensor<2x0xi32>, %u: tensor<2xf32>) -> tensor<3xf32> {
  %r = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<3xf32>, tensor<2x0xi32>, tensor<2xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}
