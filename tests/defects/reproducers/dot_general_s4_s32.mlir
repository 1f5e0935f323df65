// DEFECT: dot_general of 4-bit elements into a wider type does not compile.
// ARGS: (array([[7, -8], [3, 2]], md.int4), array([[7, 1], [1, -8]], md.int4))
// WANT: (array([[41, 71], [23, -13]], int32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2x2xi4>, %y: tensor<2x2xi4>) -> tensor<2x2xi32> {
  %r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x2xi4>, tensor<2x2xi4>) -> tensor<2x2xi32>
  return %r : tensor<2x2xi32>
}
