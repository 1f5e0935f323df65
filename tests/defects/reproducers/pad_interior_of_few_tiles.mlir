// DEFECT: a pad with interior padding, in 4 tiles on 8 devices, repeats elements.
// ARGS: (array([100, 101], int32),)
// WANT: (array([7, 100, 7, 101], int32),)
// PARTITIONS: 8
// OBSERVED: 0.10 wrong, 0.12 wrong
func.func @main(%x: tensor<2xi32> {mhlo.sharding = "{replicated}"}) -> (tensor<4xi32> {mhlo.sharding = "{devices=[4,2]<=[8] last_tile_dim_replicate}"}) {
  %c = stablehlo.constant dense<7> : tensor<i32>
  %r = stablehlo.pad %x, %c, low = [1], high = [0], interior = [1] : (tensor<2xi32>, tensor<i32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
