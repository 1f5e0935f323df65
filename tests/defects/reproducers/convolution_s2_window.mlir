// DEFECT: convolution of 2-bit elements with a window does not compile.
// ARGS: (array([[[1],[-1],[-2]]], md.int2), array([[[1]],[[1]]], md.int2))
// WANT: (array([[[0],[1]]], md.int2),)
// OBSERVED: 0.10 error, 0.12 right
func.func @main(%x: tensor<1x3x1xi2>, %k: tensor<2x1x1xi2>) -> tensor<1x2x1xi2> {
  %r = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x1xi2>, tensor<2x1x1xi2>) -> tensor<1x2x1xi2>
  return %r : tensor<1x2x1xi2>
}
