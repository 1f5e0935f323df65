// DEFECT: a sum of s4 that overflows does not wrap if it is converted to s8.
// ARGS: (array([7, 5, -8], md.int4),)
// WANT: (array([-2, -6, 0], int8),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<3xi4>) -> tensor<3xi8> {
  %s = stablehlo.add %x, %x : tensor<3xi4>
  %r = stablehlo.convert %s : (tensor<3xi4>) -> tensor<3xi8>
  return %r : tensor<3xi8>
}
