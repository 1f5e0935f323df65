// DEFECT: small numbers compare equal.
// ARGS: (array([0x07, 0x04, 0x06, 0x05], uint8).view(md.float8_e5m2fnuz),)
// WANT: (array([0x04, 0x05, 0x06, 0x07], uint8).view(md.float8_e5m2fnuz),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xf8E5M2FNUZ>) -> tensor<4xf8E5M2FNUZ> {
  %r = "stablehlo.sort"(%x) ({
    ^bb0(%a: tensor<f8E5M2FNUZ>, %b: tensor<f8E5M2FNUZ>):
      %c = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<4xf8E5M2FNUZ>) -> tensor<4xf8E5M2FNUZ>
  return %r : tensor<4xf8E5M2FNUZ>
}
