// DEFECT: the maximum of many elements ignores a NaN with a sign bit.
// ARGS: (where(arange(4096) == 5, copysign(nan, -1), 1).astype(md.bfloat16),)
// WANT: (array(True),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4096xbf16>) -> tensor<i1> {
  %z = stablehlo.constant dense<0xFF80> : tensor<bf16>
  %r = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<4096xbf16>, tensor<bf16>) -> tensor<bf16>
  %n = stablehlo.compare NE, %r, %r : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
  return %n : tensor<i1>
}
