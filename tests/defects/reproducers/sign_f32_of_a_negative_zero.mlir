// DEFECT: the sign of the constant -0 is 0.
// WANT: (array([-0.0, 0, -1], float32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main() -> tensor<3xf32> {
  %x = stablehlo.constant dense<[-0.0, 0.0, -2.0]> : tensor<3xf32>
  %r = stablehlo.sign %x : tensor<3xf32>
  return %r : tensor<3xf32>
}
