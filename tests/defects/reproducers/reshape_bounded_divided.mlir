// DEFECT: a reshape that divides a bounded size computes a wrong size.
// ARGS: (ones(6, float32), array(4, int32))
// WANT: (array(2, int32),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main(%x: tensor<6xf32>, %m: tensor<i32>) -> tensor<i32> {
  %a = stablehlo.set_dimension_size %x, %m, dim = 0 : (tensor<6xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<6>>
  %c = stablehlo.reshape %a : (tensor<?xf32, #stablehlo.bounds<6>>) -> tensor<?x2xf32, #stablehlo.bounds<3, ?>>
  %r = stablehlo.get_dimension_size %c, dim = 0 : (tensor<?x2xf32, #stablehlo.bounds<3, ?>>) -> tensor<i32>
  return %r : tensor<i32>
}
