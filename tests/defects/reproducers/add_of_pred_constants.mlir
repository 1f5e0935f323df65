// DEFECT: the sum of the constants true and true is false.
// WANT: (array(True),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main() -> tensor<i1> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %r = stablehlo.add %t, %t : tensor<i1>
  return %r : tensor<i1>
}
