// DEFECT: 3 to the power of 64, broadcast, is 1.
// ARGS: (array([3, 3], int32), array(64, int32))
// WANT: (array([2038349057, 2038349057], int32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<2xi32>, %y: tensor<i32>) -> tensor<2xi32> {
  %r = chlo.broadcast_power %x, %y : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}
