// DEFECT: a slice at the constant index 200 : u8 begins at 0.
// ARGS: (arange(256, dtype=int32),)
// WANT: (array([200, 201], int32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<256xi32>) -> tensor<2xi32> {
  %i = stablehlo.constant dense<200> : tensor<ui8>
  %r = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<256xi32>, tensor<ui8>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}
