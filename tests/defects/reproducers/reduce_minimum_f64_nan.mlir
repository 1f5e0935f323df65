// DEFECT: the minimum of many elements ignores a NaN.
// ARGS: (where(arange(4096) == 5, nan, 1).astype(float64),)
// WANT: (array(nan).astype(float64),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4096xf64>) -> tensor<f64> {
  %z = stablehlo.constant dense<0x7FF0000000000000> : tensor<f64>
  %r = stablehlo.reduce(%x init: %z) applies stablehlo.minimum across dimensions = [0] : (tensor<4096xf64>, tensor<f64>) -> tensor<f64>
  return %r : tensor<f64>
}
