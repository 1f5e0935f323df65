// DEFECT: mhlo.acos, to which HLO text is converted, does not compile.
// ARGS: (array([1, -1], float32),)
// WANT: (array([0, arccos(float32(-1))], float32),)
// OBSERVED: 0.10 error, 0.12 right
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = "mhlo.acos"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
