// DEFECT: concatenate changes the bits of NaNs.
// ARGS: (array([0x7d], uint8).view(md.float8_e5m2), array([0xfd], uint8).view(md.float8_e5m2))
// WANT: (array([0x7d, 0xfd], uint8).view(md.float8_e5m2),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<1xf8E5M2>, %y: tensor<1xf8E5M2>) -> tensor<2xf8E5M2> {
  %r = stablehlo.concatenate %x, %y, dim = 0 : (tensor<1xf8E5M2>, tensor<1xf8E5M2>) -> tensor<2xf8E5M2>
  return %r : tensor<2xf8E5M2>
}
