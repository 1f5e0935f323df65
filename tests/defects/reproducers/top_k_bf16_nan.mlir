// DEFECT: NaNs change, and so does their order.
// ARGS: (array([0x7f81,0x3f80,0x7fc1,0xffc1], uint16).view(md.bfloat16),)
// WANT: (array([0x7fc1,0x7f81], uint16).view(md.bfloat16), array([2,0],int32))
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xbf16>) -> (tensor<2xbf16>, tensor<2xi32>) {
  %v, %i = chlo.top_k(%x, k = 2) : tensor<4xbf16> -> (tensor<2xbf16>, tensor<2xi32>)
  return %v, %i : tensor<2xbf16>, tensor<2xi32>
}
