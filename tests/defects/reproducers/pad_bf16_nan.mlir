// DEFECT: pad changes the bits of signalling NaNs.
// ARGS: (array([0x7f81, 0xff81], uint16).view(md.bfloat16),)
// WANT: (array([0x7f81, 0xff81, 0], uint16).view(md.bfloat16),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main(%x: tensor<2xbf16>) -> tensor<3xbf16> {
  %z = stablehlo.constant dense<0.0> : tensor<bf16>
  %r = stablehlo.pad %x, %z, low = [0], high = [1], interior = [0] : (tensor<2xbf16>, tensor<bf16>) -> tensor<3xbf16>
  return %r : tensor<3xbf16>
}
