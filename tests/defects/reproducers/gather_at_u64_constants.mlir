// DEFECT: a gather at the constant index 2**63 : u64 returns the first element, not the last.
// WANT: (array([3, 1], int32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main() -> tensor<2xi32> {
  %x = stablehlo.constant dense<[0, 1, 2, 3]> : tensor<4xi32>
  %i = stablehlo.constant dense<[[9223372036854775808], [1]]> : tensor<2x1xui64>
  %r = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>} : (tensor<4xi32>, tensor<2x1xui64>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}
