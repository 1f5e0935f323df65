// DEFECT: a scatter into a scalar does not compile.
// ARGS: (array(1,float32), zeros((2,0),int32), array([2,3],float32))
// WANT: (array(6,float32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<f32>, %i: tensor<2x0xi32>, %u: tensor<2xf32>) -> tensor<f32> {
  %r = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<f32>, tensor<2x0xi32>, tensor<2xf32>) -> tensor<f32>
  return %r : tensor<f32>
}
