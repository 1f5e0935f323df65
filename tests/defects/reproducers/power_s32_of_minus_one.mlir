// DEFECT: the constant -1 to the power of the constant -1 is 0.
// WANT: (array([-1, 1, 1, 0], int32),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main() -> tensor<4xi32> {
  %x = stablehlo.constant dense<[-1, -1, 1, 2]> : tensor<4xi32>
  %y = stablehlo.constant dense<[-1, -2, -1, -1]> : tensor<4xi32>
  %r = stablehlo.power %x, %y : tensor<4xi32>
  return %r : tensor<4xi32>
}
