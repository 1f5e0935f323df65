// DEFECT: the conversion of a constant NaN to f32 is infinity.
// WANT: (array([nan, 2], float32),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main() -> tensor<2xf32> {
  %x = stablehlo.constant dense<[0xFF, 2.0]> : tensor<2xf8E8M0FNU>
  %r = stablehlo.convert %x : (tensor<2xf8E8M0FNU>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
