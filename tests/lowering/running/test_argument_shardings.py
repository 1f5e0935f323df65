"""Shardings of jax.Arrays, recorded as shardings of parameters."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tables import each_row

import builder as xb
import lowering
from lowering.running.jit_devices import record_shardings

P: Any = PartitionSpec
DEVICES = jax.devices("cpu")[:8]
X = np.arange(64 * 8, dtype=np.int32).reshape(8, 8, 8)

SPECS = [
    P(*entries)
    for entries in itertools.product((None, "a", "b", ("a", "c"), ("c", "b")), repeat=2)
    if not {*np.atleast_1d(entries[0] or [])} & {*np.atleast_1d(entries[1] or [])}
]


def mesh_of(order: list[int]) -> Mesh:
    return Mesh(np.array([DEVICES[n] for n in order]).reshape(2, 2, 2), ("a", "b", "c"))


def recorded(
    shardings: list[Any], sharded_as: Any = None, devices: Any = DEVICES
) -> tuple[xb.XlaComputation, list[Any]]:
    """The computation x0 + x1 + ... of arrays with these shardings, and their texts.

    Args:
        shardings: the shardings of the arrays.
        sharded_as: the sharding of the result.
        devices: the devices in the order of the partitions.
    """
    b = xb.XlaBuilder("total")
    parameters = [b.parameter(xb.s32[8, 8, 8], f"x{n}") for n in range(len(shardings))]
    total = parameters[0]
    for parameter in parameters[1:]:
        total = total + parameter
    if sharded_as is not None:
        total = xb.with_sharding(total, sharded_as)
    record_shardings(b, parameters, shardings, devices)
    return b.build(total), [p.sharding for p in parameters]


@pytest.mark.parametrize("order", [[*range(8)], [3, 1, 7, 5, 2, 0, 6, 4]], ids=["same", "other"])
@pytest.mark.parametrize("form", ["axes", "tilings"])
def test_the_parameters_take_the_arrays_as_they_are(order: list[int], form: str) -> None:
    """The devices have the same parts of the array and of the parameter."""
    result = "{replicated}" if form == "tilings" else None
    for first, second in zip(SPECS, reversed(SPECS), strict=True):
        shardings = [NamedSharding(mesh_of(order), spec) for spec in (first, second)]
        computation, texts = recorded(shardings, result)
        assert all(text.startswith("#sdy") == (form == "axes") for text in texts)
        run = lowering.compile(computation, devices=DEVICES, num_partitions=8)
        assert isinstance(run, lowering.PartitionedExecutable)
        for sharding, expected in zip(shardings, run.parameter_shardings.values(), strict=True):
            theirs = expected.devices_indices_map(X.shape)
            for device, part in sharding.devices_indices_map(X.shape).items():
                assert [s.indices(8) for s in part] == [s.indices(8) for s in theirs[device]]
        assert np.array_equal(run(X, 2 * X), 3 * X)


@each_row("spec", SPECS)
def test_tilings_are_those_of_jax(spec: Any) -> None:
    sharding = NamedSharding(mesh_of([*range(8)]), spec)
    _, (text,) = recorded([sharding], "{replicated}")
    ours = xb.parse_tiling(text)
    theirs = xb.parse_tiling(str(sharding._to_xla_hlo_sharding(3)))
    assert (ours.kind, ours.tiles, ours.subgroups) == (theirs.kind, theirs.tiles, theirs.subgroups)
    if ours.kind == "tiled":
        # The order of copies does not matter.
        tiles = [np.sort(np.reshape(t.devices, (*t.tiles[:3], -1))) for t in (ours, theirs)]
        assert np.array_equal(*tiles)


def test_shardings_without_a_mesh() -> None:
    tiling = xb.parse_tiling("{devices=[1,4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}")
    named = NamedSharding(Mesh(np.array(DEVICES).reshape(2, 4), ("x", "y")), P(None, "y"))
    sharding = GSPMDSharding(tuple(DEVICES), named._to_xla_hlo_sharding(3))
    _, texts = recorded([sharding])
    assert xb.parse_tiling(texts[0]).devices == tiling.devices
    # The axes of another array's mesh express it too.
    assert recorded([sharding, named])[1] == ['#sdy.sharding<@mesh, [{}, {"y"}, {}]>'] * 2


def test_the_mesh_of_the_function_is_used() -> None:
    mesh = xb.Mesh({"rows": 4, "columns": 2}, name="grid")
    sharding = NamedSharding(mesh_of([*range(8)]), P(("a", "b"), "c"))
    computation, texts = recorded([sharding], mesh.sharding("rows"))
    assert texts == ['#sdy.sharding<@grid, [{"rows"}, {"columns"}, {}]>']
    x = lowering.device_put(X, sharding)
    result = lowering.compile(computation, "cpu", num_partitions=8)(x)
    assert np.array_equal(result, X)
    assert result.sharding.spec == P("rows")


def test_the_order_of_the_functions_mesh() -> None:
    mesh = xb.Mesh({"i": 8}, [7, 6, 5, 4, 3, 2, 1, 0])
    sharding = NamedSharding(Mesh(np.array(DEVICES[::-1]), ("j",)), P("j"))
    assert recorded([sharding], mesh.sharding("i"))[1] == ['#sdy.sharding<@mesh, [{"i"}, {}, {}]>']


def test_names_that_mlir_does_not_accept() -> None:
    sharding = NamedSharding(Mesh(np.array(DEVICES), ("a b",)), P("a b"))
    assert recorded([sharding])[1] == ["{devices=[8,1,1]<=[8]}"]


def test_a_mesh_that_cannot_express_a_sharding() -> None:
    mesh = xb.Mesh({"i": 8})

    @lowering.jit(num_partitions=8)
    def function(x: Any) -> Any:
        return xb.with_sharding(x["v"] + x["v"], mesh.sharding("i"))

    array = lowering.device_put(X, NamedSharding(mesh_of([*range(8)]), P("a", "b")))
    for _ in range(2):
        with pytest.raises(
            lowering.ArgumentError, match=r"x\['v'\] must be sharded along the axes"
        ):
            function({"v": array})
    assert np.array_equal(function({"v": X}), 2 * X)


def test_scalars_and_empty_arrays() -> None:
    sharding = NamedSharding(mesh_of([*range(8)]), P())
    scalar = lowering.device_put(np.float32(2), sharding)
    empty = lowering.device_put(
        np.ones((0, 8), np.float32), NamedSharding(mesh_of([*range(8)]), P(None, "a"))
    )
    double = lowering.jit(lambda x, y: (x + x, y + y), num_partitions=8)
    four, nothing = double(scalar, empty)
    assert float(four) == 4
    assert nothing.shape == (0, 8)


@pytest.mark.parametrize("count", [512, 8192], ids=["one call", "a call for each device"])
def test_shards_that_several_devices_have_are_copies(count: int) -> None:
    """jaxlib places small ones in one call; both leave the caller's array free to be modified."""
    given = np.arange(count, dtype=np.float64)
    expected = given.copy()
    for spec in (P(), P("a")):
        placed = lowering.device_put(given, NamedSharding(mesh_of([*range(8)]), spec))
        given[:] = -1
        np.testing.assert_array_equal(placed, expected)
        for shard in placed.addressable_shards:
            np.testing.assert_array_equal(shard.data, expected[shard.index])
        given[:] = expected
