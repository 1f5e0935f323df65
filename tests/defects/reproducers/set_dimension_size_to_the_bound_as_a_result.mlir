// DEFECT: a loop whose body returns an array whose constant size is its bound does not compile.
// ARGS: (array([1, 2, 3], float32), array(2, int32))
// WANT: (array(6, float32),)
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<3xf32>, %n: tensor<i32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %a = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<3xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<3>>
  %c:3 = stablehlo.while(%i = %zero, %s = %a, %y = %x) : tensor<i32>, tensor<?xf32, #stablehlo.bounds<3>>, tensor<3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %d = stablehlo.set_dimension_size %y, %three, dim = 0 : (tensor<3xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<3>>
    stablehlo.return %j, %d, %y : tensor<i32>, tensor<?xf32, #stablehlo.bounds<3>>, tensor<3xf32>
  }
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%c#1 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32, #stablehlo.bounds<3>>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
