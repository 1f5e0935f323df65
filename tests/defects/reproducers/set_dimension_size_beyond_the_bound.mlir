// DEFECT: a size beyond the bound reads memory out of bounds.
// ARGS: (array([1, 2, 3], float32), array(5, int32))
// WANT: (array(3, int32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<3xf32>, %n: tensor<i32>) -> tensor<i32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<3xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<3>>
  %r = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32, #stablehlo.bounds<3>>) -> tensor<i32>
  return %r : tensor<i32>
}
