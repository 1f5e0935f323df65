// DEFECT: XLA compares complex numbers by GT, which is invalid.
// ARGS: (array([1,3,2],complex64),)
// WANT: (array([3,2],complex64), array([1,2],int32))
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<3xcomplex<f32>>) -> (tensor<2xcomplex<f32>>, tensor<2xi32>) {
  %v, %i = chlo.top_k(%x, k = 2) : tensor<3xcomplex<f32>> -> (tensor<2xcomplex<f32>>, tensor<2xi32>)
  return %v, %i : tensor<2xcomplex<f32>>, tensor<2xi32>
}
