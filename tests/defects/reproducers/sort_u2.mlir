// DEFECT: the result is not sorted.
// ARGS: (array([1,3,0,2], md.uint2),)
// WANT: (array([0,1,2,3], md.uint2),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xui2>) -> tensor<4xui2> {
  %r = "stablehlo.sort"(%x) ({
    ^bb0(%a: tensor<ui2>, %b: tensor<ui2>):
      %c = stablehlo.compare LT, %a, %b, UNSIGNED : (tensor<ui2>, tensor<ui2>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<4xui2>) -> tensor<4xui2>
  return %r : tensor<4xui2>
}
