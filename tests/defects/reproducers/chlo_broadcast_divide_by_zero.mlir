// DEFECT: constant folding of CHLO's division by zero aborts.
// WANT: (array([-1, -8], int32),)
// OBSERVED: 0.10 aborts, 0.12 right
func.func @main() -> tensor<2xi32> {
  %x = stablehlo.constant dense<[7, 8]> : tensor<2xi32>
  %z = stablehlo.constant dense<[0, -1]> : tensor<2xi32>
  %r = chlo.broadcast_divide %x, %z : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}
