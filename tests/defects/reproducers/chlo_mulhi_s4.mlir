// DEFECT: mulhi returns the upper half of 8 bits, not of 4 bits.
// ARGS: (array([7, 5], md.int4), array([7, 6], md.int4))
// WANT: (array([3, 1], md.int4),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<2xi4>, %y: tensor<2xi4>) -> tensor<2xi4> {
  %r = chlo.mulhi %x, %y : tensor<2xi4>, tensor<2xi4> -> tensor<2xi4>
  return %r : tensor<2xi4>
}
