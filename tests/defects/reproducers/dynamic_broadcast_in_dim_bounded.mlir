// DEFECT: dynamic_broadcast_in_dim to a bounded size does not compile.
// ARGS: (array([1,2],float32), array(3,int32))
// WANT: (array([3,6],float32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2xf32>, %m: tensor<i32>) -> tensor<2xf32> {
  %0 = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
  %1 = stablehlo.constant dense<2> : tensor<1xi32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %3 = stablehlo.dynamic_broadcast_in_dim %x, %2, dims = [1] : (tensor<2xf32>, tensor<2xi32>) -> tensor<?x2xf32, #stablehlo.bounds<4, ?>>
  %4 = stablehlo.constant dense<0.0> : tensor<f32>
  %5 = stablehlo.reduce(%3 init: %4) applies stablehlo.add across dimensions = [0] : (tensor<?x2xf32, #stablehlo.bounds<4, ?>>, tensor<f32>) -> tensor<2xf32>
  return %5 : tensor<2xf32>
}
