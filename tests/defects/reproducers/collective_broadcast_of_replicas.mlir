// DEFECT: collective_broadcast does not compile.
// ARGS: (array([5, -3], int32),)
// WANT: (array([5, -3], int32),)
// REPLICAS: 2
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %r = "stablehlo.collective_broadcast"(%x) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<2xi32>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}
