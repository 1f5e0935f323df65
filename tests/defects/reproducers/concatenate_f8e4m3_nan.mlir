// DEFECT: concatenate changes the bits of NaNs.
// ARGS: (array([0x79], uint8).view(md.float8_e4m3), array([0xfb], uint8).view(md.float8_e4m3))
// WANT: (array([0x79, 0xfb], uint8).view(md.float8_e4m3),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<1xf8E4M3>, %y: tensor<1xf8E4M3>) -> tensor<2xf8E4M3> {
  %r = stablehlo.concatenate %x, %y, dim = 0 : (tensor<1xf8E4M3>, tensor<1xf8E4M3>) -> tensor<2xf8E4M3>
  return %r : tensor<2xf8E4M3>
}
