// DEFECT: an update at the constant index 2**63 : u64 begins at 0, not at the last start in bounds.
// WANT: (array([0, 1, 8, 9], int32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main() -> tensor<4xi32> {
  %x = stablehlo.constant dense<[0, 1, 2, 3]> : tensor<4xi32>
  %u = stablehlo.constant dense<[8, 9]> : tensor<2xi32>
  %i = stablehlo.constant dense<9223372036854775808> : tensor<ui64>
  %r = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<4xi32>, tensor<2xi32>, tensor<ui64>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
