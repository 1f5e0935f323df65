// DEFECT: convolution along a bounded dimension does not compile.
// ARGS: (array([[[1], [2], [3]]], float32), array(2, int32), array([[[1]], [[10]]], float32))
// WANT: (array(3, int32), array([[[10], [21], [2]]], float32))
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<1x3x1xf32>, %n: tensor<i32>, %k: tensor<2x1x1xf32>) -> (tensor<i32>, tensor<1x3x1xf32>) {
  %b = stablehlo.set_dimension_size %x, %n, dim = 1 : (tensor<1x3x1xf32>, tensor<i32>) -> tensor<1x?x1xf32, #stablehlo.bounds<?, 3, ?>>
  %c = stablehlo.convolution(%b, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x?x1xf32, #stablehlo.bounds<?, 3, ?>>, tensor<2x1x1xf32>) -> tensor<1x?x1xf32, #stablehlo.bounds<?, 4, ?>>
  %m = stablehlo.get_dimension_size %c, dim = 1 : (tensor<1x?x1xf32, #stablehlo.bounds<?, 4, ?>>) -> tensor<i32>
  %s = stablehlo.constant dense<4> : tensor<i32>
  %f = stablehlo.set_dimension_size %c, %s, dim = 1 : (tensor<1x?x1xf32, #stablehlo.bounds<?, 4, ?>>, tensor<i32>) -> tensor<1x4x1xf32>
  %r = stablehlo.slice %f [0:1, 0:3, 0:1] : (tensor<1x4x1xf32>) -> tensor<1x3x1xf32>
  return %m, %r : tensor<i32>, tensor<1x3x1xf32>
}
