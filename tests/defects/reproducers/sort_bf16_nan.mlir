// DEFECT: the signalling NaN 0x7f81 becomes quiet.
// ARGS: (array([0x7f81,0x3f80,0x7fc1], uint16).view(md.bfloat16),)
// WANT: (array([0x3f80,0x7f81,0x7fc1], uint16).view(md.bfloat16),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main(%x: tensor<3xbf16>) -> tensor<3xbf16> {
  %r = "stablehlo.sort"(%x) ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %c = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<3xbf16>) -> tensor<3xbf16>
  return %r : tensor<3xbf16>
}
