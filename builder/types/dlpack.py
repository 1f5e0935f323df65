"""Read the arrays that other libraries export by DLPack.

`numpy.from_dlpack` supports the types of NumPy only. XLA also has bf16 and the f8 types, which
torch and jax export.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from builder.types import primitive_type as pt

_CPU: Final = 1
HOST_DEVICES: Final = (_CPU, 3, 11)
"""The DLDeviceTypes in whose memory the host can read: CPU, CUDAHost, ROCMHost."""

_NAMES: Final = {
    **{(0, bits): f"s{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"u{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"f{bits}" for bits in (16, 32, 64)},
    (4, 16): "bf16",
    **{(5, bits): f"c{bits}" for bits in (64, 128)},
    (6, 8): "pred",
    (7, 8): "f8e3m4",
    (8, 8): "f8e4m3",
    (9, 8): "f8e4m3b11fnuz",
    (10, 8): "f8e4m3fn",
    (11, 8): "f8e4m3fnuz",
    (12, 8): "f8e5m2",
    (13, 8): "f8e5m2fnuz",
    (14, 8): "f8e8m0fnu",
}
"""The element type of each DLDataTypeCode and number of bits."""


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h: DLDevice and DLDataType are flattened."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("sizes", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h. An unversioned capsule starts with the tensor."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_READ_ONLY: Final = 1
_MAX_VERSION: Final = (1, 3)

# Own prototypes: those of `ctypes.pythonapi` are shared by all users of ctypes.
_is_valid: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Memory:
    """The memory of a capsule, for NumPy. The capsule's destructor releases the memory."""

    def __init__(self, capsule: Any, interface: dict[str, Any]) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def read(value: Any) -> np.ndarray[Any, Any]:
    """Return an array that shares the memory of a value with ``__dlpack__``.

    Elements in the memory of a device are copied to the host if the exporter supports it.

    Raises:
        BufferError: the host can't read the elements, or NumPy can't represent them.
        Exception: anything that the exporter raises.
    """
    capsule = _capsule(value)
    read_only = False
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if managed.major > 1:
            raise BufferError(f"the array is exported by DLPack {managed.major}.{managed.minor}")
        read_only = bool(managed.flags & _READ_ONLY)
        tensor = managed.tensor
    elif _is_valid(capsule, b"dltensor"):
        tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    else:
        raise BufferError("__dlpack__ does not return a DLPack capsule")
    if tensor.device_type not in HOST_DEVICES:
        raise BufferError("the elements are in the memory of a device")
    name = _NAMES.get((tensor.code, tensor.bits))
    if name is None or tensor.lanes != 1:
        raise BufferError(
            f"NumPy has no type for DLPack's type code {tensor.code} with {tensor.bits} bits "
            f"and {tensor.lanes} lanes"
        )
    dtype = pt.as_primitive_type(name).dtype
    sizes = _integers(tensor.sizes, tensor.rank)
    if 0 in sizes:
        return np.empty(sizes, dtype)
    strides = None
    if tensor.strides:
        strides = tuple(n * dtype.itemsize for n in _integers(tensor.strides, tensor.rank))
    # Types of ml_dtypes have no name in an `__array_interface__`.
    named = dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
    interface = {
        "version": 3,
        "data": (tensor.data + tensor.byte_offset, read_only),
        "shape": sizes,
        "strides": strides,
        "typestr": named.str,
    }
    return np.asarray(_Memory(capsule, interface)).view(dtype)


def _capsule(value: Any) -> Any:
    """Return the capsule that `value` exports."""
    options: dict[str, Any] = {"max_version": _MAX_VERSION}
    if value.__dlpack_device__()[0] not in HOST_DEVICES:
        options["dl_device"] = (_CPU, 0)
    try:
        return value.__dlpack__(**options)
    except TypeError:  # an exporter older than DLPack 1.0, which has no such parameters
        if "dl_device" in options:
            raise BufferError("the elements are in the memory of a device") from None
        return value.__dlpack__()


def _integers(address: int | None, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address)) if address and count else ()
