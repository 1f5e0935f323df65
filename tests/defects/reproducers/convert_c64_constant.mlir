// DEFECT: the conversion of a complex constant to real numbers aborts.
// WANT: (array(1, float32),)
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main() -> tensor<f32> {
  %x = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
  %r = stablehlo.convert %x : (tensor<complex<f32>>) -> tensor<f32>
  return %r : tensor<f32>
}
