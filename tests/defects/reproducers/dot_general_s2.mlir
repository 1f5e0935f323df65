// DEFECT: dot_general of 2-bit elements does not compile.
// ARGS: (array([[1, -2], [-1, 1]], md.int2), array([[1, 0], [1, 1]], md.int2))
// WANT: (array([[-1, -2], [0, 1]], md.int2),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2x2xi2>, %y: tensor<2x2xi2>) -> tensor<2x2xi2> {
  %r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x2xi2>, tensor<2x2xi2>) -> tensor<2x2xi2>
  return %r : tensor<2x2xi2>
}
