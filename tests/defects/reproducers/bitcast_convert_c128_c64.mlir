// DEFECT: a bitcast of c128 to c64 does not compile, or aborts.
// ARGS: (array([1+2j]),)
// WANT: (array([1+2j]).view(complex64).reshape(1, 2),)
// OBSERVED: 0.10 error, 0.12 aborts
func.func @main(%x: tensor<1xcomplex<f64>>) -> tensor<1x2xcomplex<f32>> {
  %r = stablehlo.bitcast_convert %x : (tensor<1xcomplex<f64>>) -> tensor<1x2xcomplex<f32>>
  return %r : tensor<1x2xcomplex<f32>>
}
