// DEFECT: asin(1) is NaN.
// ARGS: (array([0.5, 1], md.float8_e8m0fnu),)
// WANT: (array([0.5, 2], md.float8_e8m0fnu),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<2xf8E8M0FNU>) -> tensor<2xf8E8M0FNU> {
  %r = chlo.asin %x : tensor<2xf8E8M0FNU> -> tensor<2xf8E8M0FNU>
  return %r : tensor<2xf8E8M0FNU>
}
