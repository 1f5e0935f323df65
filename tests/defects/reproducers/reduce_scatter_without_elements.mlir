// DEFECT: a reduce_scatter without elements, across one partition, aborts while compiling.
// ARGS: (zeros((0, 3), int32),)
// WANT: (zeros((0, 3), int32),)
// OBSERVED: 0.10 aborts, 0.12 aborts
func.func @main(%x: tensor<0x3xi32>) -> tensor<0x3xi32> {
  %r = "stablehlo.reduce_scatter"(%x) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) {scatter_dimension = 1 : i64, replica_groups = dense<0> : tensor<1x1xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, use_global_device_ids} : (tensor<0x3xi32>) -> tensor<0x3xi32>
  return %r : tensor<0x3xi32>
}
