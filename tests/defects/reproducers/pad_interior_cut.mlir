// DEFECT: partitioning a pad with interior padding and negative low padding aborts.
// ARGS: (arange(8, dtype=int32),)
// WANT: (array([7, 1, 7, 2, 7, 3, 7, 4, 7, 5, 7, 6, 7, 7], int32),)
// PARTITIONS: 8
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main(%x: tensor<8xi32> {mhlo.sharding = "{devices=[8]<=[8]}"}) -> (tensor<14xi32> {mhlo.sharding = "{replicated}"}) {
  %c = stablehlo.constant dense<7> : tensor<i32>
  %r = stablehlo.pad %x, %c, low = [-1], high = [0], interior = [1] : (tensor<8xi32>, tensor<i32>) -> tensor<14xi32>
  return %r : tensor<14xi32>
}
