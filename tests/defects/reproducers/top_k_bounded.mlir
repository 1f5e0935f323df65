// DEFECT: top_k of a row of bounded size does not compile.
// ARGS: (array([[1,3,2],[4,6,5]],float32), array(2,int32))
// WANT: (array([[3,1],[6,4]],float32), array([[1,0],[1,0]],int32))
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2x3xf32>, %m: tensor<i32>) -> (tensor<2x2xf32>, tensor<2x2xi32>) {
  %a = "stablehlo.set_dimension_size"(%x, %m) {dimension = 1 : i64} : (tensor<2x3xf32>, tensor<i32>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
  %v, %i = "chlo.top_k"(%a) {k = 2 : i64} : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
  return %v, %i : tensor<2x2xf32>, tensor<2x2xi32>
}
