// DEFECT: compilation takes minutes.
// ARGS: (arange(512 * 512 * 4, dtype=float32).reshape(512, 512, 4),)
// WANT: ((lambda x: where(arange(512)[:, None, None] >= arange(512)[:, None], x, x.swapaxes(0, 1)))(arange(512 * 512 * 4, dtype=float32).reshape(512, 512, 4)),)
// OBSERVED: 0.10 hangs, 0.12 right
func.func @main(%x: tensor<512x512x4xf32>) -> tensor<512x512x4xf32> {
  %rows = stablehlo.iota dim = 0 : tensor<512x512x4xi32>
  %columns = stablehlo.iota dim = 1 : tensor<512x512x4xi32>
  %lower = stablehlo.compare GE, %rows, %columns : (tensor<512x512x4xi32>, tensor<512x512x4xi32>) -> tensor<512x512x4xi1>
  %t = stablehlo.transpose %x, dims = [1, 0, 2] : (tensor<512x512x4xf32>) -> tensor<512x512x4xf32>
  %r = stablehlo.select %lower, %x, %t : tensor<512x512x4xi1>, tensor<512x512x4xf32>
  return %r : tensor<512x512x4xf32>
}
