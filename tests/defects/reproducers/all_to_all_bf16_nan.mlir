// DEFECT: all_to_all changes the bits of signalling NaNs.
// ARGS: (array([0x7f81, 0x7f81], uint16).view(md.bfloat16),)
// WANT: (array([0x7f81, 0x7f81], uint16).view(md.bfloat16),)
// REPLICAS: 2
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<2xbf16>) -> tensor<2xbf16> {
  %r = "stablehlo.all_to_all"(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xbf16>) -> tensor<2xbf16>
  return %r : tensor<2xbf16>
}
