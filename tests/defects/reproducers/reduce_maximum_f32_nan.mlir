// DEFECT: the maximum of many elements ignores a NaN.
// ARGS: (where(arange(4096) == 5, nan, 1).astype(float32),)
// WANT: (array(nan).astype(float32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4096xf32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<4096xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
