// DEFECT: both results are the first operand's result, or the program does not compile.
// ARGS: (zeros(3,float32), array([[1],[2]],int32), array([1,2],float32), array([10,20],float32))
// WANT: (array([0,1,2],float32), array([0,10,20],float32))
// OBSERVED: 0.10 wrong, 0.12 error
func.func @main(%x: tensor<3xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>, %w: tensor<2xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %r:2 = "stablehlo.scatter"(%x, %x, %i, %u, %w) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %p = stablehlo.add %a, %c : tensor<f32>
      %q = stablehlo.add %b, %d : tensor<f32>
      stablehlo.return %p, %q : tensor<f32>, tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<3xf32>, tensor<3xf32>, tensor<2x1xi32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %r#0, %r#1 : tensor<3xf32>, tensor<3xf32>
}
