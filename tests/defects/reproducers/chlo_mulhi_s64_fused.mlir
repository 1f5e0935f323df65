// DEFECT: mulhi of a computed value does not compile.
// ARGS: (array([9223372036854775807, -9223372036854775808], int64), array([4611686018427387904, 4611686018427387904], int64))
// WANT: (array([-2305843009213693952, 2305843009213693951], int64),)
// OBSERVED: 0.10 error, 0.12 right
func.func @main(%x: tensor<2xi64>, %y: tensor<2xi64>) -> tensor<2xi64> {
  %n = stablehlo.not %x : tensor<2xi64>
  %r = chlo.mulhi %n, %y : tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>
  return %r : tensor<2xi64>
}
