// DEFECT: reduce_window of a bounded size ignores dilation in the size of the result.
// ARGS: (array([1, 2, 3, 4], float32), array(3, int32))
// WANT: (array(4, int32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<i32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %w = "stablehlo.reduce_window"(%a, %z) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {window_dimensions = array<i64: 2>, base_dilations = array<i64: 2>} : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<f32>) -> tensor<?xf32, #stablehlo.bounds<6>>
  %r = stablehlo.get_dimension_size %w, dim = 0 : (tensor<?xf32, #stablehlo.bounds<6>>) -> tensor<i32>
  return %r : tensor<i32>
}
