"""Placement of arrays: sharding, and copies between devices without reading on the host."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from tables import each_row

import builder as xb
import lowering
from lowering.errors import ArgumentError, DeviceError, XlaError
from lowering.jaxlib_api import jax_arrays


def mesh() -> Mesh:
    return Mesh(np.array(lowering.devices("cpu")[:8]).reshape(2, 4), ("x", "y"))


def spec(*names: Any) -> Any:
    made: Any = PartitionSpec
    return NamedSharding(mesh(), made(*names))


@pytest.mark.parametrize(
    ("names", "flag"),
    [(("x", "y"), False), ((None, "x"), False), ((), False), ((("y", "x"),), True)],
)
def test_sharding_agrees_with_jax(names: tuple[Any, ...], flag: bool) -> None:
    with jax.enable_x64(flag):
        for array in (
            np.arange(64, dtype=np.int64).reshape(8, 8) + 2**40,
            np.arange(64).reshape(8, 8).astype(xb.bf16.dtype)[::-1],
        ):
            sharding = spec(*names)
            there = lowering.device_put(array, sharding)
            assert there.dtype == array.dtype
            assert there.sharding == sharding
            assert np.asarray(there).tobytes() == array.tobytes()
            indices = sharding.addressable_devices_indices_map(array.shape)
            for shard in there.addressable_shards:
                expected = array[indices[shard.device]]
                assert np.asarray(shard.data).tobytes() == expected.tobytes()
            # Copy to one device, and back.
            alone = lowering.device_put(there, "cpu:3")
            assert alone.devices() == {lowering.device("cpu:3")}
            again = lowering.device_put(alone, sharding)
            for one in (alone, again):
                assert one.dtype == array.dtype
                assert np.asarray(one).tobytes() == array.tobytes()


@pytest.mark.parametrize("names", [("x",), (("x", "y"),), (None, "y"), ()])
def test_shards_are_copies(names: tuple[Any, ...]) -> None:
    """Also if several devices have the same shard, or different shards are the same memory."""
    sharding = spec(*names)
    for base in (
        np.ones((64, 64), np.float32),
        np.ones((0, 8), np.float32),
        np.ones((8, 1), np.int8),
    ):
        for array in (base, np.broadcast_to(base[:1], base.shape) if base.size else base):
            if array.shape[-1] == 1 and names == (None, "y"):
                continue  # one column can't be divided
            there = lowering.device_put(array, sharding)
            base[...] = 2
            assert there.is_fully_addressable
            assert len(there.addressable_shards) == 8
            assert np.array_equal(there, np.ones(array.shape))
            # As an array that jax has placed: a traced function is not traced again.
            assert there.aval == jax.device_put(np.ones_like(array), sharding).aval
            base[...] = 1


def test_a_sharding_over_one_device() -> None:
    one = lowering.device("cpu:2")
    there = lowering.device_put(np.arange(3), SingleDeviceSharding(one))
    assert there.devices() == {one}
    assert there.dtype == np.int64


def test_copies_have_the_default_layout() -> None:
    """Also for an array in another layout, which jax.device_put would preserve."""
    first = lowering.device("cpu")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    turned = jax.device_put(array, Format(Layout((1, 0)), SingleDeviceSharding(first)))
    for to in ("cpu:0", "cpu:1"):
        there = lowering.device_put(turned, to)
        usual = jax_arrays.default_layout(first, array.dtype, array.shape)
        assert jax_arrays.layout_of(there) == usual
        assert np.asarray(there).tolist() == array.tolist()
    there = lowering.device_put(lowering.device_put(array, "cpu"), "cpu")
    copied = lowering.device_put(there, "cpu")
    assert copied.unsafe_buffer_pointer() != there.unsafe_buffer_pointer()
    there.delete()
    assert np.asarray(copied).tolist() == array.tolist()


def test_arrays_are_not_read_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """jax's transfer guards ignore the CPU, so the test disables every way to read a jax.Array."""
    b = xb.XlaBuilder("stays")
    x, y = b.parameter(xb.f64[2]), b.parameter(xb.f64[2])
    computation = b.build(xb.tuple(x + y, x))
    program = lowering.compile(computation, "cpu:1")
    twice = lowering.compile(computation, "cpu", num_replicas=2)
    values = np.array([0.1, 0.2])

    def closed(function: Any) -> Any:
        def read(value: Any, *arguments: Any, **more: Any) -> Any:
            if isinstance(value, jax.Array):
                raise AssertionError("the array is read on the host")
            return function(value, *arguments, **more)

        return read

    with monkeypatch.context() as watched:
        # NumPy reads arrays on a CPU as buffers, without calling a method.
        for name in ("array", "asarray", "from_dlpack"):
            watched.setattr(np, name, closed(getattr(np, name)))
        for name in ("__array__", "_value", "__dlpack__"):
            there_is = getattr(jax_arrays.array_type, name)
            way_out = property(closed(None)) if name == "_value" else closed(there_is)
            watched.setattr(jax_arrays.array_type, name, way_out)
        there = lowering.device_put(values, "cpu")
        moved = lowering.device_put(there, "cpu:1")
        cut = lowering.device_put(moved, spec("x"))
        result = moved
        for _ in range(3):
            result, same = program(result, moved)
        pairs = twice([there, moved], [there, moved])
        with pytest.raises(AssertionError, match="read on the host"):
            np.asarray(there)
    assert result.devices() == {lowering.device("cpu:1")}
    assert np.asarray(result).tolist() == (values * 4).tolist()
    assert np.asarray(same).tolist() == (values + values + values).tolist()
    assert np.asarray(cut).tolist() == values.tolist()
    assert [np.asarray(p[0]).tolist() for p in pairs] == [(values * 2).tolist()] * 2


@each_row(
    "value, to, message",
    [
        (np.ones((3, 4)), lambda: spec("x"), "an array of the sizes (3, 4) can't be sharded by"),
        (np.ones(4), lambda: spec("x", "y"), "an array of the sizes (4,) can't be sharded by"),
        (np.ones(()), lambda: spec("x"), "an array of the sizes () can't be sharded by"),
        (
            [1],
            lambda: spec("x"),
            "expected an array, got a list",
        ),
        (np.array(["a"]), lambda: spec("x"), "NumPy dtype str32 has no primitive type in XLA"),
        (
            np.ones(4),
            lambda: PartitionSpec("x"),
            "argument to must be a device or a jax sharding, got P",
        ),
        (np.ones(4), lambda: mesh(), "argument to must be a device or a jax sharding, got Mesh("),
        (
            np.ones(4),
            lambda: lowering.devices("cpu"),
            "argument to must be a device or a jax sharding, got (Cpu",
        ),
        (
            np.ones(4),
            lambda: xb.Mesh({"x": 2}).sharding("x"),
            "argument to must be a device or a jax sharding, got MeshSharding(",
        ),
        (
            np.ones(4),
            lambda: NamedSharding(mesh().abstract_mesh, spec("x").spec),
            "the sharding has a mesh without devices: Named",
        ),
        (
            np.ones(4),
            lambda: spec(PartitionSpec.UNCONSTRAINED),
            "the sharding leaves a dimension unconstrained: N",
        ),
        (
            np.ones(4),
            lambda: spec("x").with_memory_kind("pinned_host"),
            "to must be in memory of kind 'device', got memory of kind 'pinned_host'",
        ),
    ],
)
def test_refused_values(value: Any, to: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        lowering.device_put(value, to())
    assert str(caught.value).startswith(f"device_put: {message}")
    assert caught.value.op == "device_put"
    if "got MeshSharding(" in message:
        assert "fix: pass executable.parameter_shardings[name], or jax" in str(caught.value)


def test_refused_jax_arrays() -> None:
    with pytest.raises(ArgumentError, match=r"device_put: .*\nfix: pass jax.random.key_data"):
        lowering.device_put(jax.random.key(0))
    with pytest.raises(ArgumentError, match="device_put: expected an array, got a tracer of jax"):
        jax.jit(lowering.device_put)(np.ones(2))
    uneven = jax.device_put(np.ones(3, np.float32), lowering.device("cpu"))
    with pytest.raises(ArgumentError, match="device_put: an array of the sizes"):
        lowering.device_put(uneven, spec("x"))
    with pytest.raises(DeviceError, match=r"expected a jax\.Device or a name such as"):
        lowering.device_put(uneven, 3)
    assert issubclass(ArgumentError, XlaError)
