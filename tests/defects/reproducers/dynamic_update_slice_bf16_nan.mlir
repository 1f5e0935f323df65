// DEFECT: dynamic_update_slice changes the bits of signalling NaNs.
// ARGS: (array([0x7f81, 0], uint16).view(md.bfloat16), array([0xff81], uint16).view(md.bfloat16), array(1, int32))
// WANT: (array([0x7f81, 0xff81], uint16).view(md.bfloat16),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main(%x: tensor<2xbf16>, %y: tensor<1xbf16>, %i: tensor<i32>) -> tensor<2xbf16> {
  %r = stablehlo.dynamic_update_slice %x, %y, %i : (tensor<2xbf16>, tensor<1xbf16>, tensor<i32>) -> tensor<2xbf16>
  return %r : tensor<2xbf16>
}
