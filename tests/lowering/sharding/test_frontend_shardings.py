"""Shardings in frontend attributes, as in modules that are converted from HLO."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import builder as xb
import lowering

pytestmark = pytest.mark.usefixtures("read_here")

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


def test_hlo_with_both_forms_of_shardings() -> None:
    """As jax prints it: XLA's tilings, and Shardy's shardings, from which they are derived."""
    mesh = Mesh(np.array(lowering.devices("cpu")[:4]).reshape(2, 2), ("a", "b"))
    rows, columns = NamedSharding(mesh, P("a", None)), NamedSharding(mesh, P(None, "b"))
    both = jax.jit(lambda x, y: (x @ y, -x), in_shardings=(rows, columns), out_shardings=rows)
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    y = np.arange(48, dtype=np.float32).reshape(8, 6)
    text = both.lower(x, y).as_text("hlo")
    assert "sharding={devices=" in text
    assert "xla.sdy.sharding" in text
    computation = lowering.from_hlo(text)
    for program in (computation, lowering.from_hlo(str(computation))):
        run = lowering.compile(program, "cpu", num_partitions=4)
        for ours, theirs in zip(run(x, y), both(x, y), strict=True):
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
            assert ours.sharding.shard_shape(ours.shape) == (2, ours.shape[1])


def test_hlo_of_a_call_with_several_results_and_shardings() -> None:
    def host(a: Any) -> Any:
        return a, a

    shape = jax.ShapeDtypeStruct((4,), np.float32)
    called = jax.jit(lambda x: jax.pure_callback(host, (shape, shape), x)).lower(shape)
    text = called.as_text("hlo")
    assert text.count("xla.sdy.sharding=") == 3
    computation = lowering.from_hlo(text)
    (call,) = (op for op in computation.ops if op.opcode == "custom_call")
    sharding = "<@maximal_mesh_0, []>"
    assert call.sharding == f"#sdy.sharding_per_value<[{sharding}, {sharding}]>"
    assert computation.program_shape.result == xb.TupleShape([xb.f32[4]] * 2)


def test_tilings_beside_an_unused_mesh() -> None:
    tiling = "{devices=[2,1]<=[2]}"
    b = xb.XlaBuilder("tiled")
    text = str(b.build(-b.parameter(xb.f32[2, 3], "x", sharding=tiling)))
    mesh = r'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=2]>}}'
    head, _, rest = text.partition("\n")
    (x,) = lowering.from_hlo(f"{head}, {mesh}\n{rest}").parameters
    assert x.sharding == tiling
