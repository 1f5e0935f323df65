// DEFECT: popcnt of a constant -1 : s2 is 8, which wraps to 0.
// WANT: (array([0, 1, 1, -2], md.int2),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main() -> tensor<4xi2> {
  %x = stablehlo.constant dense<[0, 1, -2, -1]> : tensor<4xi2>
  %r = stablehlo.popcnt %x : tensor<4xi2>
  return %r : tensor<4xi2>
}
