// DEFECT: a slice with a stride near 2**63 aborts, or does not compile.
// ARGS: (arange(5, dtype=float32),)
// WANT: (array([1], float32),)
// OBSERVED: 0.10 aborts, 0.12 error
func.func @main(%x: tensor<5xf32>) -> tensor<1xf32> {
  %r = stablehlo.slice %x [1:4:9223372036854775807] : (tensor<5xf32>) -> tensor<1xf32>
  return %r : tensor<1xf32>
}
