// DEFECT: rng_bit_generator of s8 returns u8.
// ARGS: (array([1, 2], uint64),)
// WANT: (array([1, 4], uint64), array([84, 59, -45, 3], int8))
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<4xi8>) {
  %r:2 = "stablehlo.rng_bit_generator"(%s) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xi8>)
  return %r#0, %r#1 : tensor<2xui64>, tensor<4xi8>
}
