// DEFECT: the result is not sorted.
// ARGS: (array([1,-2,0,-1], md.int2),)
// WANT: (array([-2,-1,0,1], md.int2),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<4xi2>) -> tensor<4xi2> {
  %r = "stablehlo.sort"(%x) ({
    ^bb0(%a: tensor<i2>, %b: tensor<i2>):
      %c = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i2>, tensor<i2>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<4xi2>) -> tensor<4xi2>
  return %r : tensor<4xi2>
}
