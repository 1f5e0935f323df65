// DEFECT: a reduce_scatter whose reducer subtracts does not compile.
// ARGS: (array([5, 5], int32),)
// WANT: (array([0], int32),)
// REPLICAS: 2
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2xi32>) -> tensor<1xi32> {
  %r = "stablehlo.reduce_scatter"(%x) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.subtract %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xi32>) -> tensor<1xi32>
  return %r : tensor<1xi32>
}
