"""DLPack's capsules are read like `numpy.from_dlpack` reads them; also those of ml_dtypes."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.types import foreign_arrays
from tests.foreign_arrays import DlpackOnly, OldDlpack


@each_row("kind", [DlpackOnly, OldDlpack])
@each_row(
    "array",
    [
        np.arange(24, dtype=np.int16).reshape(2, 3, 4),
        np.arange(24, dtype=np.int64).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(24.0).reshape(4, 6)[1:, ::-2],
        np.broadcast_to(np.float32(2), (3, 2)).copy()[:, :1],
        np.array(3 + 4j),
        np.zeros((0, 3), np.uint8),
        np.array([True, False]),
    ],
)
def test_arrays_of_numpy(kind: Any, array: np.ndarray) -> None:
    got, expected = foreign_arrays.read(kind(array)), np.from_dlpack(kind(array))
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.size == 0 or got.strides == expected.strides
    np.testing.assert_array_equal(got, expected)
    assert got.size == 0 or np.shares_memory(got, array)


@each_row(
    "name",
    ["bf16", "f8e3m4", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"],
)
def test_types_of_ml_dtypes(name: str) -> None:
    """jax exports them, as torch does."""
    dtype = xb.as_primitive_type(name).dtype
    expected = np.array([[0, 1, -2], [0.5, 4, 3]]).astype(dtype)
    exported = jax.device_put(expected, jax.devices("cpu")[0])
    try:
        exported.__dlpack__()
    except (TypeError, ValueError, BufferError):
        pytest.fail(f"jax does not export {name}")
    got = foreign_arrays.read(DlpackOnly(exported))
    assert got.dtype == dtype
    assert got.tobytes() == expected.tobytes()
    part = foreign_arrays.read(DlpackOnly(exported))[:, ::2]
    assert part.astype(np.float32).tolist() == [[0, -2], [0.5, 3]]


def test_read_only_arrays() -> None:
    array = np.ones(3)
    array.flags.writeable = False
    got = foreign_arrays.read(DlpackOnly(array))
    assert not got.flags.writeable
    assert foreign_arrays.read(DlpackOnly(np.ones(3))).flags.writeable


def test_the_memory_is_released_with_the_array() -> None:
    released: list[bool] = []

    class Owner(np.ndarray):
        def __del__(self) -> None:
            if self.base is None:
                released.append(True)

    owner = np.ndarray.__new__(Owner, (3,))
    owner[...] = 5
    got = foreign_arrays.read(DlpackOnly(owner))
    del owner
    gc.collect()
    assert released == []
    assert got.tolist() == [5, 5, 5]
    view = got[1:]
    del got
    gc.collect()
    assert view.tolist() == [5, 5]
    assert released == []
    del view
    gc.collect()
    assert released == [True]


class Changed(DlpackOnly):
    """An exporter whose tensor has changed fields."""

    def __init__(self, array: Any, **fields: int) -> None:
        super().__init__(array)
        self.fields = fields

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.array.__dlpack__(**options)
        address = foreign_arrays._pointer(capsule, b"dltensor_versioned")
        managed = foreign_arrays._Versioned.from_address(address)
        for name, value in self.fields.items():
            setattr(managed if name == "major" else managed.tensor, name, value)
        return capsule


@each_row(
    "fields, message",
    [
        ({"device_type": 2}, "the elements are in the memory of a device"),
        ({"code": 3}, "NumPy has no type for DLPack's type code 3 with 64 bits and 1 lanes"),
        ({"bits": 4}, "type code 2 with 4 bits and 1 lanes"),
        ({"lanes": 2}, "type code 2 with 64 bits and 2 lanes"),
        ({"major": 2}, r"the array is exported by DLPack 2\.\d"),
    ],
)
def test_refused_tensors(fields: dict[str, int], message: str) -> None:
    with pytest.raises(BufferError, match=message):
        foreign_arrays.read(Changed(np.ones(3), **fields))


def test_a_byte_offset() -> None:
    array = np.arange(4.0)
    got = foreign_arrays.read(Changed(array, byte_offset=8, rank=0))
    assert got.item() == 1.0


def test_the_structures_have_the_sizes_of_dlpack_h() -> None:
    """The sizes of the C compiler on 64-bit platforms, from the fields of the header."""
    assert ctypes.sizeof(foreign_arrays._Tensor) == 48
    assert foreign_arrays._Versioned.tensor.offset == 32
    assert jnp.ones(2).__dlpack_device__()[0] in foreign_arrays.HOST_DEVICES
