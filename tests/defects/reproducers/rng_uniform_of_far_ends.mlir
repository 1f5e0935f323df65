// DEFECT: uniform numbers are infinite if the distance between the ends is larger than the largest number.
// WANT: (array(True),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main() -> tensor<i1> {
  %a = stablehlo.constant dense<-3.0e38> : tensor<f32>
  %b = stablehlo.constant dense<3.0e38> : tensor<f32>
  %s = stablehlo.constant dense<> : tensor<0xi64>
  %n = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<0xi64>) -> tensor<f32>
  %r = stablehlo.is_finite %n : (tensor<f32>) -> tensor<i1>
  return %r : tensor<i1>
}
