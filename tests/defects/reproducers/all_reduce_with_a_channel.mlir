// DEFECT: an all_reduce of s4 with a channel does not compile for replicas.
// ARGS: (array([3, -8], md.int4),)
// WANT: (array([6, 0], md.int4),)
// REPLICAS: 2
// OBSERVED: 0.10 error, 0.12 error
func.func @main(%x: tensor<2xi4>) -> tensor<2xi4> {
  %r = "stablehlo.all_reduce"(%x) ({
  ^bb0(%a: tensor<i4>, %b: tensor<i4>):
    %s = stablehlo.add %a, %b : tensor<i4>
    stablehlo.return %s : tensor<i4>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<2xi4>) -> tensor<2xi4>
  return %r : tensor<2xi4>
}
