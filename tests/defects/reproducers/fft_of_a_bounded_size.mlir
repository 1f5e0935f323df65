// DEFECT: fft of a batch of bounded size does not compile.
// ARGS: (array([[1, 1], [5, 5]], complex64), array(1, int32))
// WANT: (array(2, complex64),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2x2xcomplex<f32>>, %n: tensor<i32>) -> tensor<complex<f32>> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2x2xcomplex<f32>>, tensor<i32>) -> tensor<?x2xcomplex<f32>, #stablehlo.bounds<2, ?>>
  %c = stablehlo.fft %a, type = FFT, length = [2] : (tensor<?x2xcomplex<f32>, #stablehlo.bounds<2, ?>>) -> tensor<?x2xcomplex<f32>, #stablehlo.bounds<2, ?>>
  %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<?x2xcomplex<f32>, #stablehlo.bounds<2, ?>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  return %r : tensor<complex<f32>>
}
