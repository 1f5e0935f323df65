// DEFECT: dynamic_update_slice of a bounded array writes beyond the size.
// ARGS: (array([1, 2, 3, 4], float32), array([10], float32), array(2, int32))
// WANT: (array(11, float32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xf32>, %y: tensor<1xf32>, %n: tensor<i32>) -> tensor<f32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
  %c = stablehlo.dynamic_update_slice %a, %y, %n : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<1xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
