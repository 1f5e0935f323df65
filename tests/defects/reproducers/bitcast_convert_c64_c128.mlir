// DEFECT: a bitcast of c64 to c128 aborts.
// ARGS: (array([1+2j]).view(complex64).reshape(1, 2),)
// WANT: (array([1+2j]),)
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main(%x: tensor<1x2xcomplex<f32>>) -> tensor<1xcomplex<f64>> {
  %r = stablehlo.bitcast_convert %x : (tensor<1x2xcomplex<f32>>) -> tensor<1xcomplex<f64>>
  return %r : tensor<1xcomplex<f64>>
}
