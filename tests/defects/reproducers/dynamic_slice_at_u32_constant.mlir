// DEFECT: a slice at an index of u32 that folds to 2**31 begins at 0, not at the last start in bounds.
// ARGS: (arange(4, dtype=int32),)
// WANT: (array([2, 3], int32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xi32>) -> tensor<2xi32> {
  %half = stablehlo.constant dense<1073741824> : tensor<ui32>
  %i = stablehlo.add %half, %half : tensor<ui32>
  %r = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<4xi32>, tensor<ui32>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}
