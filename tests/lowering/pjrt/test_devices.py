"""Devices, and arrays on them: bits are preserved and the caller's memory is not shared."""

import jax
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from builder.types import primitive_type as pt
from lowering import ArgumentError, DeviceError
from tests.foreign_arrays import DlpackOnly, LazyTensor
from tests.lowering.common import aligned

CPU = "use one of cpu:0"


def values(element_type, count=12):
    """Return extreme values of a type, and signed zeros, infinities and NaN if supported."""
    bits = max(8, element_type.bits)
    raw = np.random.default_rng(0).integers(0, 256, count * bits // 8, np.uint8)
    if element_type is xb.pred:
        raw &= 1
    elif element_type.bits < 8:
        numbers = np.arange(count) % (1 << element_type.bits)
        if element_type.is_integral:
            return (numbers + element_type.min).astype(element_type.dtype)
        return numbers.astype(np.uint8).view(element_type.dtype)
    return raw.view(element_type.dtype)


def test_devices_by_name():
    first = jax.local_devices(backend="cpu")[0]
    assert lowering.device("cpu") is first
    assert lowering.device("cpu:0") is first
    assert lowering.device(" CPU:0 ") is first
    assert lowering.device(first) is first
    assert lowering.device() is jax.local_devices()[0]
    assert lowering.devices("cpu")[0] is first
    assert lowering.devices() == tuple(jax.local_devices())
    with jax.default_device(first):
        assert lowering.device(None) is first
    with jax.default_device("cpu"):
        assert lowering.device(None) is first


@each_row(
    "which, message",
    [
        ("abacus", "there is no platform 'abacus' here\nfix: use one of "),
        ("cpu:4096", "there is no device 'cpu:4096', cpu has "),
        ("cpu:" + "9" * 5000, "there is no device 'cpu:999"),
        ("cpu:one", "expected a name such as 'cpu' or 'gpu:1', got 'cpu:one'\nfix: use one of "),
        ("cpu:-1", "expected a name such as 'cpu' or 'gpu:1', got 'cpu:-1'\nfix: use one of "),
        ("", "expected a name such as 'cpu' or 'gpu:1', got ''\nfix: use one of "),
        (
            3,
            "expected a jax.Device or a name such as 'cpu' or 'gpu:1', got 3\nfix: use one of cpu",
        ),
    ],
)
def test_missing_devices(which, message):
    with pytest.raises(DeviceError) as caught:
        lowering.device(which)
    assert str(caught.value).startswith(f"device: {message}")
    assert str(caught.value).count("\n") <= 1


@xb.computation(xb.f32[2])
def doubled(x):
    return x + x


@each_row(
    "name, call",
    [
        ("device", lowering.device),
        ("devices", lowering.devices),
        ("device_put", lambda device: lowering.device_put(np.zeros(2), device)),
        ("compile", lambda device: lowering.compile(doubled, device)),
        ("compile", lambda device: lowering.compile(doubled, devices=[device])),
        ("compare", lambda device: lowering.compare(doubled, np.zeros(2), device=device)),
        ("step", lambda device: lowering.jit(lambda x: x, name="step", device=device)(np.ones(2))),
        ("transfer_to_infeed", lambda device: lowering.transfer_to_infeed(np.zeros(2), device)),
        ("transfer_from_outfeed", lambda device: lowering.transfer_from_outfeed("f32[]", device)),
        ("clear_transfers", lowering.clear_transfers),
    ],
)
def test_the_error_names_the_function_that_was_called(name, call):
    with pytest.raises(DeviceError) as caught:
        call("abacus")
    assert str(caught.value).startswith(f"{name}: there is no platform 'abacus' here\nfix: ")
    assert caught.value.op == name


@each_row("element_type", pt.ALL)
def test_every_element_type_bit_for_bit(element_type):
    array = values(element_type)
    for shaped in (array, array.reshape(3, 4), array[:1].reshape(()), array[:0]):
        there = lowering.device_put(shaped, "cpu")
        assert there.dtype == element_type.dtype
        assert there.shape == shaped.shape
        assert np.asarray(there).tobytes() == shaped.tobytes()
        again = lowering.device_put(there, "cpu")
        assert again.dtype == element_type.dtype
        assert np.asarray(again).tobytes() == shaped.tobytes()


@pytest.mark.parametrize("flag", [False, True])
def test_64_bit_types_with_and_without_jax_enable_x64(flag):
    with jax.enable_x64(flag):
        for array in (np.array([0.1]), np.array([2**62 + 1]), np.array([0.1 + 0.1j])):
            for value in (array, array[0], DlpackOnly(array)):
                there = lowering.device_put(value, "cpu")
                assert there.dtype == array.dtype
                assert np.asarray(there).tobytes() == array.tobytes()


def test_a_lazy_negation_is_resolved():
    array = np.array([1.5, -2], np.float32)
    assert np.array_equal(lowering.device_put(LazyTensor(-array), "cpu"), array)


def test_the_memory_of_the_caller_is_not_shared():
    for dtype in (np.float32, np.float64, np.uint8):
        array = aligned(np.arange(1024).astype(dtype))
        before = array.copy()
        there = [
            lowering.device_put(array, "cpu"),
            lowering.device_put(DlpackOnly(array), "cpu"),
            lowering.device_put(array.reshape(32, 32), "cpu"),
        ]
        array[...] = 7
        for one in there:
            assert np.array_equal(np.asarray(one).ravel(), before)


def test_any_strides_and_byte_order():
    array = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
    for view in (
        array.T,
        array[::-1, :, ::2],
        np.asfortranarray(array),
        np.broadcast_to(np.int64(3), (2, 2)),
        array.astype(">i8"),
    ):
        there = lowering.device_put(view, "cpu")
        assert there.dtype == np.int64
        assert np.array_equal(np.asarray(there), view)


def test_dlpack_objects():
    for array in (
        np.arange(3, dtype=np.int8),
        np.array([True, False]),
        np.ones((2, 2), np.float16),
    ):
        there = lowering.device_put(DlpackOnly(array), "cpu")
        assert there.dtype == array.dtype
        assert np.array_equal(np.asarray(there), array)
    half = lowering.device_put(np.arange(3).astype(xb.bf16.dtype), "cpu")
    there = lowering.device_put(DlpackOnly(half), "cpu")
    assert there.dtype == xb.bf16.dtype
    assert np.asarray(there).tolist() == [0, 1, 2]


@each_row(
    "value, message",
    [
        ([1, 2], "expected an array, got a list\nfix: "),
        (None, "expected an array, got None\nfix: "),
        (np.ma.ones(2), "expected an array, got a masked array"),
        (np.array(["a"]), "NumPy dtype str32 has no primitive type in XLA"),
        (np.array([None]), "NumPy dtype object has no primitive type in XLA"),
    ],
)
def test_values_that_are_not_arrays(value, message):
    with pytest.raises(ArgumentError) as caught:
        lowering.device_put(value)
    assert str(caught.value).startswith(f"device_put: {message}")
    assert caught.value.op == "device_put"
    assert isinstance(value, np.ma.MaskedArray) == (".filled(value)" in str(caught.value))


def test_a_deleted_array_is_refused():
    gone = lowering.device_put(np.ones(3, np.float32), "cpu")
    gone.delete()
    with pytest.raises(
        ArgumentError, match=r"device_put: expected an array, got a jax\.Array that"
    ):
        lowering.device_put(gone)


def test_a_platform_must_be_a_string():
    with pytest.raises(DeviceError, match="devices: platform must be a name such as 'cpu', got 3"):
        lowering.devices(3)
