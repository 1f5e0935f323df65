// DEFECT: the first element of the constant is +0, not -0.
// WANT: (array([-0.0, 0, 1, 0, 2, 0], float32).view(complex64),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main() -> tensor<3xcomplex<f32>> {
  %r = stablehlo.constant dense<[(-0.0, 0.0), (1.0, 0.0), (2.0, 0.0)]> : tensor<3xcomplex<f32>>
  return %r : tensor<3xcomplex<f32>>
}
