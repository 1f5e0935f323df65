// DEFECT: collective_permute changes the bits of signalling NaNs.
// ARGS: (array([0x7f81, 0xff81], uint16).view(md.bfloat16),)
// WANT: (array([0x7f81, 0xff81], uint16).view(md.bfloat16),)
// REPLICAS: 2
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<2xbf16>) -> tensor<2xbf16> {
  %r = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>} : (tensor<2xbf16>) -> tensor<2xbf16>
  return %r : tensor<2xbf16>
}
