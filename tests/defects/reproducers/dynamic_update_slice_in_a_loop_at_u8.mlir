// DEFECT: dynamic_update_slice at each row counted by a loop, a counter of u8, updates no row after row 43.
// ARGS: (zeros(300, float32), array([1], float32))
// WANT: (array([1] * 100 + [0] * 200, float32),)
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<300xf32>, %u: tensor<1xf32>) -> tensor<300xf32> {
  %zero = stablehlo.constant dense<0> : tensor<ui8>
  %one = stablehlo.constant dense<1> : tensor<ui8>
  %n = stablehlo.constant dense<100> : tensor<ui8>
  %end, %r = stablehlo.while(%i = %zero, %s = %x) : tensor<ui8>, tensor<300xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %t = stablehlo.dynamic_update_slice %s, %u, %i : (tensor<300xf32>, tensor<1xf32>, tensor<ui8>) -> tensor<300xf32>
    %k = stablehlo.add %i, %one : tensor<ui8>
    stablehlo.return %k, %t : tensor<ui8>, tensor<300xf32>
  }
  return %r : tensor<300xf32>
}
