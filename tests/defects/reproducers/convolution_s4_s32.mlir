// DEFECT: convolution of 4-bit elements into a wider type does not compile.
// ARGS: (array([[[7],[-1],[-8]]], md.int4), array([[[7]]], md.int4))
// WANT: (array([[[49],[-7],[-56]]], int32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<1x3x1xi4>, %k: tensor<1x1x1xi4>) -> tensor<1x3x1xi32> {
  %r = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x1xi4>, tensor<1x1x1xi4>) -> tensor<1x3x1xi32>
  return %r : tensor<1x3x1xi32>
}
