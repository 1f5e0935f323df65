// DEFECT: 3 to the power of 64 is 1.
// ARGS: (array([3, 5], int32), array([64, 100], int32))
// WANT: (array([2038349057, -1971132175], int32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<2xi32>, %y: tensor<2xi32>) -> tensor<2xi32> {
  %r = stablehlo.power %x, %y : tensor<2xi32>
  return %r : tensor<2xi32>
}
