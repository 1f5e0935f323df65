// DEFECT: windows of one element with negative padding abort.
// ARGS: (array([1, 2, 3], float32),)
// WANT: (array([2, 3], float32),)
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main(%x: tensor<3xf32>) -> tensor<2xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.reduce_window"(%x, %z) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {window_dimensions = array<i64: 1>, padding = dense<[[-1, 0]]> : tensor<1x2xi64>} : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
