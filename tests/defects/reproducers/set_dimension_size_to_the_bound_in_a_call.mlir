// DEFECT: a call with a constant array whose constant size is its bound aborts, or does not compile.
// WANT: (array([[2, 4], [6, 8]], float32),)
// OBSERVED: 0.10 aborts, 0.12 error
func.func @main() -> tensor<?x2xf32, #stablehlo.bounds<2, ?>> {
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %n = stablehlo.constant dense<2> : tensor<i32>
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2x2xf32>, tensor<i32>) -> tensor<?x2xf32, #stablehlo.bounds<2, ?>>
  %r = func.call @double(%a) : (tensor<?x2xf32, #stablehlo.bounds<2, ?>>) -> tensor<?x2xf32, #stablehlo.bounds<2, ?>>
  return %r : tensor<?x2xf32, #stablehlo.bounds<2, ?>>
}
func.func private @double(%v: tensor<?x2xf32, #stablehlo.bounds<2, ?>>) -> tensor<?x2xf32, #stablehlo.bounds<2, ?>> {
  %d = stablehlo.add %v, %v : tensor<?x2xf32, #stablehlo.bounds<2, ?>>
  return %d : tensor<?x2xf32, #stablehlo.bounds<2, ?>>
}
