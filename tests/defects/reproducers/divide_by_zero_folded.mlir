// DEFECT: constant folding of a division by x - x aborts.
// ARGS: (array([3, 5], int32),)
// WANT: (array([-1, -1], int32),)
// OBSERVED: 0.10 aborts, 0.12 right
func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %c = stablehlo.constant dense<[7, 8]> : tensor<2xi32>
  %z = stablehlo.subtract %x, %x : tensor<2xi32>
  %r = stablehlo.divide %c, %z : tensor<2xi32>
  return %r : tensor<2xi32>
}
