// DEFECT: mhlo.sinh of complex numbers does not compile, or aborts.
// ARGS: (array([0], complex64),)
// WANT: (array([0], complex64),)
// OBSERVED: 0.10 error, 0.12 aborts
func.func @main(%x: tensor<1xcomplex<f32>>) -> tensor<1xcomplex<f32>> {
  %r = "mhlo.sinh"(%x) : (tensor<1xcomplex<f32>>) -> tensor<1xcomplex<f32>>
  return %r : tensor<1xcomplex<f32>>
}
