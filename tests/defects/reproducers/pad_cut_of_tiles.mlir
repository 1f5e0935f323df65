// DEFECT: a pad with negative low padding of a replicated operand, in 8 tiles, removes no element.
// ARGS: (arange(16, dtype=int32),)
// WANT: (append(arange(5, 16, dtype=int32), full(5, 7, int32)),)
// PARTITIONS: 8
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<16xi32> {mhlo.sharding = "{replicated}"}) -> (tensor<16xi32> {mhlo.sharding = "{devices=[8]<=[8]}"}) {
  %c = stablehlo.constant dense<7> : tensor<i32>
  %r = stablehlo.pad %x, %c, low = [-5], high = [5], interior = [0] : (tensor<16xi32>, tensor<i32>) -> tensor<16xi32>
  return %r : tensor<16xi32>
}
