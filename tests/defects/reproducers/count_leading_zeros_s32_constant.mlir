// DEFECT: a number of s32 that folds to -1 has -32 leading zeros.
// WANT: (array(0, int32),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main() -> tensor<i32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %x = stablehlo.not %c : tensor<i32>
  %r = stablehlo.count_leading_zeros %x : tensor<i32>
  return %r : tensor<i32>
}
