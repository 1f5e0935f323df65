// DEFECT: 2**-127 is converted to false.
// ARGS: (array([2.0**-127, 1, nan]).astype(md.float8_e8m0fnu),)
// WANT: (array([True, True, True]),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<3xf8E8M0FNU>) -> tensor<3xi1> {
  %r = stablehlo.convert %x : (tensor<3xf8E8M0FNU>) -> tensor<3xi1>
  return %r : tensor<3xi1>
}
