// DEFECT: a slice of fixed size is treated as bounded, and a concatenation with it omits elements.
// ARGS: (array([1, 2, 3, 4], float32), array(3, int32), array([10, 20], float32))
// WANT: (array(63, float32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>, %y: tensor<2xf32>) -> tensor<f32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
  %s = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = array<i64: 1>} : (tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<2xf32>
  %c = stablehlo.concatenate %s, %y, %y, dim = 0 : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<6xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
