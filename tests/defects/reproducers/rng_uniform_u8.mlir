// DEFECT: rng of 8-bit integers aborts.
// WANT: (array(3, uint8),)
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main() -> tensor<ui8> {
  %a = stablehlo.constant dense<3> : tensor<ui8>
  %b = stablehlo.constant dense<4> : tensor<ui8>
  %s = stablehlo.constant dense<> : tensor<0xi64>
  %r = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<ui8>, tensor<ui8>, tensor<0xi64>) -> tensor<ui8>
  return %r : tensor<ui8>
}
