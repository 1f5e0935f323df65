// DEFECT: all_gather of 2-bit elements returns wrong elements.
// ARGS: (array([0, 1, -1, -2], md.int2),)
// WANT: (array([0, 1, -1, -2, 0, 1, -1, -2], md.int2),)
// REPLICAS: 2
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xi2>) -> tensor<8xi2> {
  %r = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xi2>) -> tensor<8xi2>
  return %r : tensor<8xi2>
}
