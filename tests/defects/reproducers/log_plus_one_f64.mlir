// DEFECT: log_plus_one of -0.4130859375 has an error of more than 50 ulps; 4 ulps are allowed.
// ARGS: (array(-0.4130859375),)
// WANT: (array(True),)
// OBSERVED: 0.10 wrong, 0.12 right
func.func @main(%x: tensor<f64>) -> tensor<i1> {
  %want = stablehlo.constant dense<-0.5328768710642455> : tensor<f64>
  %ulps = stablehlo.constant dense<4.44e-16> : tensor<f64>
  %y = "stablehlo.log_plus_one"(%x) : (tensor<f64>) -> tensor<f64>
  %d = stablehlo.subtract %y, %want : tensor<f64>
  %e = stablehlo.abs %d : tensor<f64>
  %r = stablehlo.compare LE, %e, %ulps : (tensor<f64>, tensor<f64>) -> tensor<i1>
  return %r : tensor<i1>
}
