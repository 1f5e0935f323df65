// DEFECT: XLA creates indices with 4-bit elements, and fails.
// ARGS: (array([1,3,2],md.int4),)
// WANT: (array([3,2],md.int4), array([1,2],int32))
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<3xi4>) -> (tensor<2xi4>, tensor<2xi32>) {
  %v, %i = chlo.top_k(%x, k = 2) : tensor<3xi4> -> (tensor<2xi4>, tensor<2xi32>)
  return %v, %i : tensor<2xi4>, tensor<2xi32>
}
