// DEFECT: mulhi of a computed value does not compile.
// ARGS: (array([2147483647, -2147483648], int32), array([1073741824, 1073741824], int32))
// WANT: (array([-536870912, 536870911], int32),)
// OBSERVED: 0.10 error, 0.12 right
func.func @main(%x: tensor<2xi32>, %y: tensor<2xi32>) -> tensor<2xi32> {
  %n = stablehlo.not %x : tensor<2xi32>
  %r = chlo.mulhi %n, %y : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
  return %r : tensor<2xi32>
}
