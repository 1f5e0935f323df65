// DEFECT: concatenate changes the bits of signalling NaNs.
// ARGS: (array([0x7f81], uint16).view(md.bfloat16), array([0xffc1], uint16).view(md.bfloat16))
// WANT: (array([0x7f81, 0xffc1], uint16).view(md.bfloat16),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main(%x: tensor<1xbf16>, %y: tensor<1xbf16>) -> tensor<2xbf16> {
  %r = stablehlo.concatenate %x, %y, dim = 0 : (tensor<1xbf16>, tensor<1xbf16>) -> tensor<2xbf16>
  return %r : tensor<2xbf16>
}
