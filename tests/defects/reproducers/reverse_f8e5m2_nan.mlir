// DEFECT: reverse changes the bits of NaNs.
// ARGS: (array([0xfd, 0x7d], uint8).view(md.float8_e5m2),)
// WANT: (array([0x7d, 0xfd], uint8).view(md.float8_e5m2),)
// OBSERVED: 0.10 right, 0.12 wrong
func.func @main(%x: tensor<2xf8E5M2>) -> tensor<2xf8E5M2> {
  %r = stablehlo.reverse %x, dims = [0] : tensor<2xf8E5M2>
  return %r : tensor<2xf8E5M2>
}
