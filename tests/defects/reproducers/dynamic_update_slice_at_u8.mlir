// DEFECT: dynamic_update_slice at row 100 of 257, an index of u8, updates row 0.
// ARGS: (zeros(257, float32), array([1], float32), array(100, uint8))
// WANT: (array([0] * 100 + [1] + [0] * 156, float32),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main(%x: tensor<257xf32>, %u: tensor<1xf32>, %i: tensor<ui8>) -> tensor<257xf32> {
  %r = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<257xf32>, tensor<1xf32>, tensor<ui8>) -> tensor<257xf32>
  return %r : tensor<257xf32>
}
