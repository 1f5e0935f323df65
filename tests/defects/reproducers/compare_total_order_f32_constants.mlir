// DEFECT: the constant -0 is not less than 0 in the total order, and 1 is not less than NaN.
// WANT: (array([True, True, False]),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main() -> tensor<3xi1> {
  %x = stablehlo.constant dense<[-0.0, 1.0, 0x7FC00000]> : tensor<3xf32>
  %y = stablehlo.constant dense<[0.0, 0x7FC00000, 0x7FC00000]> : tensor<3xf32>
  %r = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  return %r : tensor<3xi1>
}
