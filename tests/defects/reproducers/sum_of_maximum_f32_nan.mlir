// DEFECT: a maximum that is summed loses a NaN.
// ARGS: (where(arange(4096) == 5, nan, 1).astype(float32),)
// WANT: (array(True),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4096xf32>) -> tensor<i1> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4096xf32>
  %m = stablehlo.maximum %x, %zeros : tensor<4096xf32>
  %r = stablehlo.reduce(%m init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4096xf32>, tensor<f32>) -> tensor<f32>
  %n = stablehlo.compare NE, %r, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %n : tensor<i1>
}
