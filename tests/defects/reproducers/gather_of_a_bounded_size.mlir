// DEFECT: gather from a bounded array returns elements beyond the size.
// ARGS: (array([1, 2, 3, 4], float32), array(2, int32))
// WANT: (array([1, 2], float32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<2xf32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
  %i = stablehlo.constant dense<[[0], [3]]> : tensor<2x1xi32>
  %r = "stablehlo.gather"(%a, %i) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>} : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<2x1xi32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
