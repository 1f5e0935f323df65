// DEFECT: a bitcast of eight preds to one s8 returns eight elements.
// ARGS: (array([[1, 0, 1, 0, 0, 0, 0, 0]], bool),)
// WANT: (array([5], int8),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<1x8xi1>) -> tensor<1xi8> {
  %r = stablehlo.bitcast_convert %x : (tensor<1x8xi1>) -> tensor<1xi8>
  return %r : tensor<1xi8>
}
