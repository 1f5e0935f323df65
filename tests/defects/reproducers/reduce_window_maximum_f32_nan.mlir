// DEFECT: a maximum of windows ignores a NaN.
// ARGS: (where(arange(4096).reshape(16, 256) == 5, nan, 1).astype(float32),)
// WANT: (where(arange(1024).reshape(16, 64) == 1, nan, 1).astype(float32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<16x256xf32>) -> tensor<16x64xf32> {
  %z = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = "stablehlo.reduce_window"(%x, %z) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.maximum %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {window_dimensions = array<i64: 1, 4>, window_strides = array<i64: 1, 4>} : (tensor<16x256xf32>, tensor<f32>) -> tensor<16x64xf32>
  return %r : tensor<16x64xf32>
}
