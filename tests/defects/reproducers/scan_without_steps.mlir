// DEFECT: a scan over a dimension of size 0 does not compile.
// ARGS: (array([], float32), array(10, float32))
// WANT: (array([], float32), array(10, float32))
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<0xf32>, %c: tensor<f32>) -> (tensor<0xf32>, tensor<f32>) {
  %r:2 = chlo.scan (%x) inits (%c) dimension=0 {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s, %s : tensor<f32>, tensor<f32>
  } : (tensor<0xf32>, tensor<f32>) -> (tensor<0xf32>, tensor<f32>)
  return %r#0, %r#1 : tensor<0xf32>, tensor<f32>
}
