// DEFECT: a reduce of s2 together with the elements' numbers, as argmax is written, does not compile.
// ARGS: (array([[-2, 1, 0], [1, 0, 1]], md.int2),)
// WANT: (array([1, 1], md.int2), array([1, 0], int32))
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2x3xi2>) -> (tensor<2xi2>, tensor<2xi32>) {
  %n = stablehlo.iota dim = 1 : tensor<2x3xi32>
  %least = stablehlo.constant dense<-2> : tensor<i2>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = "stablehlo.reduce"(%x, %n, %least, %zero) ({
  ^bb0(%a: tensor<i2>, %i: tensor<i32>, %b: tensor<i2>, %j: tensor<i32>):
    %greater = stablehlo.compare GT, %a, %b : (tensor<i2>, tensor<i2>) -> tensor<i1>
    %equal = stablehlo.compare EQ, %a, %b : (tensor<i2>, tensor<i2>) -> tensor<i1>
    %before = stablehlo.compare LT, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %first = stablehlo.and %equal, %before : tensor<i1>
    %left = stablehlo.or %greater, %first : tensor<i1>
    %value = stablehlo.select %left, %a, %b : tensor<i1>, tensor<i2>
    %number = stablehlo.select %left, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %value, %number : tensor<i2>, tensor<i32>
  }) {dimensions = array<i64: 1>} : (tensor<2x3xi2>, tensor<2x3xi32>, tensor<i2>, tensor<i32>) -> (tensor<2xi2>, tensor<2xi32>)
  return %r#0, %r#1 : tensor<2xi2>, tensor<2xi32>
}
