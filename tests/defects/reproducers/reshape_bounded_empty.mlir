// DEFECT: a reshape of a bounded array without elements divides by zero in the compiler.
// ARGS: (ones((6, 0), float32), array(4, int32))
// WANT: (array(0, int32),)
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main(%x: tensor<6x0xf32>, %m: tensor<i32>) -> tensor<i32> {
  %a = stablehlo.set_dimension_size %x, %m, dim = 0 : (tensor<6x0xf32>, tensor<i32>) -> tensor<?x0xf32, #stablehlo.bounds<6, ?>>
  %c = stablehlo.reshape %a : (tensor<?x0xf32, #stablehlo.bounds<6, ?>>) -> tensor<?xf32, #stablehlo.bounds<0>>
  %r = stablehlo.get_dimension_size %c, dim = 0 : (tensor<?xf32, #stablehlo.bounds<0>>) -> tensor<i32>
  return %r : tensor<i32>
}
