// DEFECT: an all_to_all with one operand for each device aborts if the groups have one device.
// ARGS: (array([3, 4], float32),)
// WANT: (array([3, 4], float32),)
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = "mhlo.all_to_all"(%x) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
