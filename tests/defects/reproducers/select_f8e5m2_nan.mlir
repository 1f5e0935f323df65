// DEFECT: select changes the bits of NaNs.
// ARGS: (array([True, False]), array([0x7d, 0xfd], uint8).view(md.float8_e5m2), array([0x7d, 0xfd], uint8).view(md.float8_e5m2))
// WANT: (array([0x7d, 0xfd], uint8).view(md.float8_e5m2),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%p: tensor<2xi1>, %x: tensor<2xf8E5M2>, %y: tensor<2xf8E5M2>) -> tensor<2xf8E5M2> {
  %r = stablehlo.select %p, %x, %y : tensor<2xi1>, tensor<2xf8E5M2>
  return %r : tensor<2xf8E5M2>
}
