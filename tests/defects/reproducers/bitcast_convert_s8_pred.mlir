// DEFECT: a bitcast of one s8 to eight preds returns one element.
// ARGS: (array([5], int8),)
// WANT: (array([[1, 0, 1, 0, 0, 0, 0, 0]], bool),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<1xi8>) -> tensor<1x8xi1> {
  %r = stablehlo.bitcast_convert %x : (tensor<1xi8>) -> tensor<1x8xi1>
  return %r : tensor<1x8xi1>
}
