// DEFECT: the minimum of 2**-127 and another number is NaN.
// ARGS: (array([2.0**-127, 1, 8]).astype(md.float8_e8m0fnu), array([2, 1, 4]).astype(md.float8_e8m0fnu))
// WANT: (array([2.0**-127, 1, 4]).astype(md.float8_e8m0fnu),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<3xf8E8M0FNU>, %y: tensor<3xf8E8M0FNU>) -> tensor<3xf8E8M0FNU> {
  %r = stablehlo.minimum %x, %y : tensor<3xf8E8M0FNU>
  return %r : tensor<3xf8E8M0FNU>
}
