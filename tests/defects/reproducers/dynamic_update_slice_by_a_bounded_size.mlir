// DEFECT: dynamic_update_slice with an update of bounded size does not compile.
// ARGS: (array([1, 2, 3, 4], float32), array([10, 20], float32), array(1, int32))
// WANT: (array([1, 10, 3, 4], float32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<4xf32>, %y: tensor<2xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %u = stablehlo.set_dimension_size %y, %n, dim = 0 : (tensor<2xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<2>>
  %r = stablehlo.dynamic_update_slice %x, %u, %n : (tensor<4xf32>, tensor<?xf32, #stablehlo.bounds<2>>, tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
