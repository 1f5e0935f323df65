"""Shardings in frontend attributes, as in modules that are converted from HLO."""

from __future__ import annotations

import numpy as np
import pytest

import lowering

MESHES = r'mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22data\22=2]>}"}'
MODULE = r"""
module @sharded attributes {MESHES} {
  func.func public @main(%x: tensor<2x3xf32> {mhlo.frontend_attributes = {
      xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22data\22}, {}]>", stage = "1"}})
      -> tensor<2x3xf32> {
    %0 = stablehlo.add %x, %x : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
"""


def test_a_module_is_partitioned_by_them() -> None:
    module = lowering.load_bytes(MODULE.replace("MESHES", MESHES))
    before = module.text
    run = lowering.compile(module, "cpu", num_partitions=2)
    assert isinstance(run, lowering.PartitionedExecutable)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = run(x)
    np.testing.assert_array_equal(result, x + x)
    assert run.parameter_shardings["arg0"].shard_shape((2, 3)) == (1, 3)
    assert module.text == before
    np.testing.assert_array_equal(lowering.compile(module, "cpu")(x), x + x)


def test_a_mesh_that_is_not_declared() -> None:
    # XLA aborts on such a module.
    module = lowering.load_bytes(MODULE.replace("MESHES", ""))
    with pytest.raises(
        lowering.CompileError, match=r"sharded: shardings in .* require a declaration"
    ):
        lowering.compile(module, "cpu")
    with pytest.raises(lowering.LoweringError, match=r"compile: .* unknown mesh: @mesh\nfix:"):
        lowering.compile(module, "cpu", num_partitions=2)
