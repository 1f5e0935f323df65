// DEFECT: a pad with interior and negative padding, in 4 tiles beside a bounded size, ends the process.
// ARGS: (arange(16, dtype="i4").reshape(2, 8), array(2, int32))
// WANT: (array([[7 if n % 2 == 0 else 8 * m + (n + 1) // 2 for n in range(14)] for m in range(2)], int32),)
// PARTITIONS: 8
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main(%x: tensor<2x8xi32> {mhlo.sharding = "{replicated}"}, %n: tensor<i32> {mhlo.sharding = "{replicated}"}) -> (tensor<2x14xi32> {mhlo.sharding = "{replicated}"}) {
  %c = stablehlo.constant dense<7> : tensor<i32>
  %b = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2x8xi32>, tensor<i32>) -> tensor<?x8xi32, #stablehlo.bounds<2, ?>>
  %p = stablehlo.pad %b, %c, low = [0, -1], high = [0, 0], interior = [0, 1] {mhlo.sharding = "{devices=[1,4,2]<=[8] last_tile_dim_replicate}"} : (tensor<?x8xi32, #stablehlo.bounds<2, ?>>, tensor<i32>) -> tensor<?x14xi32, #stablehlo.bounds<2, ?>>
  %f = stablehlo.constant dense<2> : tensor<i32>
  %r = stablehlo.set_dimension_size %p, %f, dim = 0 : (tensor<?x14xi32, #stablehlo.bounds<2, ?>>, tensor<i32>) -> tensor<2x14xi32>
  return %r : tensor<2x14xi32>
}
