// DEFECT: concatenate of 2-bit elements aborts.
// ARGS: (array([0, 1, -1], md.int2), array([-2, 1], md.int2))
// WANT: (array([0, 1, -1, -2, 1], md.int2),)
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main(%x: tensor<3xi2>, %y: tensor<2xi2>) -> tensor<5xi2> {
  %r = stablehlo.concatenate %x, %y, dim = 0 : (tensor<3xi2>, tensor<2xi2>) -> tensor<5xi2>
  return %r : tensor<5xi2>
}
