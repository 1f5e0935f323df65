// DEFECT: the maximum of 1+2j and 1+3j is 1+2j.
// ARGS: (array([1+2j], complex64), array([1+3j], complex64))
// WANT: (array([1+3j], complex64),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<1xcomplex<f32>>, %y: tensor<1xcomplex<f32>>) -> tensor<1xcomplex<f32>> {
  %r = stablehlo.maximum %x, %y : tensor<1xcomplex<f32>>
  return %r : tensor<1xcomplex<f32>>
}
