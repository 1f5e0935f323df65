// DEFECT: 2**-127 divided by 2**-126 is NaN.
// ARGS: (array([2.0**-127, 4]).astype(md.float8_e8m0fnu), array([2.0**-126, 2]).astype(md.float8_e8m0fnu))
// WANT: (array([0.5, 2]).astype(md.float8_e8m0fnu),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<2xf8E8M0FNU>, %y: tensor<2xf8E8M0FNU>) -> tensor<2xf8E8M0FNU> {
  %r = stablehlo.divide %x, %y : tensor<2xf8E8M0FNU>
  return %r : tensor<2xf8E8M0FNU>
}
