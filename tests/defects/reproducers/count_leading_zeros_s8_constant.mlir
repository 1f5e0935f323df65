// DEFECT: the constant -1 : s8 has -56 leading zeros.
// WANT: (array([0, 0, 7, 8], int8),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main() -> tensor<4xi8> {
  %x = stablehlo.constant dense<[-1, -128, 1, 0]> : tensor<4xi8>
  %r = stablehlo.count_leading_zeros %x : tensor<4xi8>
  return %r : tensor<4xi8>
}
