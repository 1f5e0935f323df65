// DEFECT: a sum of u4 that overflows does not wrap if it is converted to u8.
// ARGS: (array([7, 5, 8], md.uint4),)
// WANT: (array([14, 10, 0], uint8),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<3xui4>) -> tensor<3xui8> {
  %s = stablehlo.add %x, %x : tensor<3xui4>
  %r = stablehlo.convert %s : (tensor<3xui4>) -> tensor<3xui8>
  return %r : tensor<3xui8>
}
