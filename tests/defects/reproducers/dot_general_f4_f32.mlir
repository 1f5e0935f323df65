// DEFECT: dot_general of f4e2m1fn into f32 does not compile.
// ARGS: (array([[1, 6], [0.5, 2]], md.float4_e2m1fn), array([[1, 2], [4, 6]], md.float4_e2m1fn))
// WANT: (array([[25, 38], [8.5, 13]], float32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2x2xf4E2M1FN>, %y: tensor<2x2xf4E2M1FN>) -> tensor<2x2xf32> {
  %r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x2xf4E2M1FN>, tensor<2x2xf4E2M1FN>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}
