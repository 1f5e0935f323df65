// DEFECT: popcnt of -1 : s4 is 8.
// ARGS: (array([-1, 3, 0, -8], md.int4),)
// WANT: (array([4, 2, 0, 1], md.int4),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xi4>) -> tensor<4xi4> {
  %r = stablehlo.popcnt %x : tensor<4xi4>
  return %r : tensor<4xi4>
}
