// DEFECT: constant folding clamps true between true and false to true.
// WANT: (array([False, True]),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main() -> tensor<2xi1> {
  %low = stablehlo.constant dense<true> : tensor<2xi1>
  %high = stablehlo.constant dense<[false, true]> : tensor<2xi1>
  %r = stablehlo.clamp %low, %low, %high : tensor<2xi1>
  return %r : tensor<2xi1>
}
