// DEFECT: a bitcast_convert of bounded size to another width does not compile.
// ARGS: (array([1, 256, 7], int16), array(2, int32))
// WANT: (array(2, int32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<3xi16>, %n: tensor<i32>) -> tensor<i32> {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<3xi16>, tensor<i32>) -> tensor<?xi16, #stablehlo.bounds<3>>
  %c = stablehlo.bitcast_convert %a : (tensor<?xi16, #stablehlo.bounds<3>>) -> tensor<?x2xi8, #stablehlo.bounds<3, ?>>
  %r = stablehlo.get_dimension_size %c, dim = 0 : (tensor<?x2xi8, #stablehlo.bounds<3, ?>>) -> tensor<i32>
  return %r : tensor<i32>
}
