// DEFECT: the conversion of 6 : f4e2m1fn to s32 is the largest integer.
// ARGS: (array([6, -6, 4], md.float4_e2m1fn),)
// WANT: (array([6, -6, 4], int32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<3xf4E2M1FN>) -> tensor<3xi32> {
  %r = stablehlo.convert %x : (tensor<3xf4E2M1FN>) -> tensor<3xi32>
  return %r : tensor<3xi32>
}
