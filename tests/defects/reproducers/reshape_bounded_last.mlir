// DEFECT: a reshape that divides a bounded size returns wrong elements if the bounded dimension is the last.
// ARGS: (arange(6, dtype=float32), array(4, int32))
// WANT: (array(2, int32), array([2, 3], float32))
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<6xf32>, %m: tensor<i32>) -> (tensor<i32>, tensor<2xf32>) {
  %a = stablehlo.set_dimension_size %x, %m, dim = 0 : (tensor<6xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<6>>
  %c = stablehlo.reshape %a : (tensor<?xf32, #stablehlo.bounds<6>>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
  %n = stablehlo.get_dimension_size %c, dim = 1 : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>) -> tensor<i32>
  %s = stablehlo.constant dense<3> : tensor<i32>
  %f = stablehlo.set_dimension_size %c, %s, dim = 1 : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>, tensor<i32>) -> tensor<2x3xf32>
  %l = stablehlo.slice %f [1:2, 0:2] : (tensor<2x3xf32>) -> tensor<1x2xf32>
  %r = stablehlo.reshape %l : (tensor<1x2xf32>) -> tensor<2xf32>
  return %n, %r : tensor<i32>, tensor<2xf32>
}
