// DEFECT: the conversion of a complex constant to real numbers aborts.
// WANT: (ones(3, float32),)
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main() -> tensor<3xf32> {
  %x = stablehlo.constant dense<(1.0, 2.0)> : tensor<3xcomplex<f64>>
  %r = stablehlo.convert %x : (tensor<3xcomplex<f64>>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}
