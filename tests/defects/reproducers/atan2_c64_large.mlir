// DEFECT: atan2 of 1e25 and 1 is NaN instead of pi / 2.
// ARGS: (array(1e25, complex64), array(1, complex64))
// WANT: (array(True),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%y: tensor<complex<f32>>, %x: tensor<complex<f32>>) -> tensor<i1> {
  %0 = stablehlo.atan2 %y, %x : tensor<complex<f32>>
  %1 = stablehlo.real %0 : (tensor<complex<f32>>) -> tensor<f32>
  %2 = stablehlo.is_finite %1 : (tensor<f32>) -> tensor<i1>
  return %2 : tensor<i1>
}
