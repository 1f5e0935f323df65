// DEFECT: constants of f4e2m1fn divided by the constant 0 are 0, and not 6 or -6.
// WANT: (array([6, -6], md.float4_e2m1fn),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main() -> tensor<2xf4E2M1FN> {
  %x = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf4E2M1FN>
  %y = stablehlo.constant dense<0.0> : tensor<2xf4E2M1FN>
  %r = stablehlo.divide %x, %y : tensor<2xf4E2M1FN>
  return %r : tensor<2xf4E2M1FN>
}
