// DEFECT: constant folding of a remainder by zero aborts.
// WANT: (array([7, 0], int32),)
// OBSERVED: 0.10 aborts, 0.12 right
func.func @main() -> tensor<2xi32> {
  %x = stablehlo.constant dense<[7, 8]> : tensor<2xi32>
  %z = stablehlo.constant dense<[0, -1]> : tensor<2xi32>
  %r = stablehlo.remainder %x, %z : tensor<2xi32>
  return %r : tensor<2xi32>
}
