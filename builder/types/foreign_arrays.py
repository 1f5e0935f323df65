"""Read arrays as NumPy arrays, whatever library they belong to.

`numpy.from_dlpack` supports the types of NumPy only. XLA also has bf16 and the f8 types, which
torch and jax export.

No library is imported. An array is read by a protocol that it implements: Python's buffer
protocol, ``__array__``, ``__array_interface__``, ``__array_struct__`` or ``__dlpack__``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from builder.errors import OperandError
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


_NUMPY_PROTOCOLS: Final = ("__array__", "__array_interface__", "__array_struct__")
_TEXT: Final = (str, bytes, bytearray)
"""The types of texts, which NumPy would read as arrays."""


class UnreadableArrayError(Exception):
    """A value has no elements that can be read, or none that fit.

    Attributes:
        got: the description of the value with the reason, for messages: "must be X, got ...".
        fix: an imperative sentence, or empty.
    """

    def __init__(self, got: str, fix: str = "") -> None:
        super().__init__(got)
        self.got = got
        self.fix = fix


def is_tracer(value: object) -> bool:
    """Return whether a value is an array that jax is tracing; jax is not imported for this."""
    return hasattr(value, "aval") and hasattr(value, "_trace")


def is_array(value: Any) -> bool:
    """Return whether a value implements a protocol for arrays; `read_array` may still fail."""
    if isinstance(value, type):
        return False
    return _has(value, *_NUMPY_PROTOCOLS) or _has(value, "__dlpack__") or _is_buffer(value)


def read_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Return the elements of an array as a NumPy array in native byte order.

    Args:
        value: any value.

    Returns:
        An array that may share the memory of `value`; its dtype may have no primitive type. None if
        the value is not an array: Python numbers, lists and texts are not.

    Raises:
        UnreadableArrayError: the value is a masked array; or its elements can't be read.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        if isinstance(value, np.ma.MaskedArray):
            raise UnreadableArrayError(
                "a masked array", "fill the masked elements: array.filled(value)"
            )
        array = np.asarray(value)
    elif is_array(value):
        try:
            array = _read(value)
        except OperandError:  # an XlaOp, which has no elements
            return None
    else:
        return None
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
        array.flags.writeable = False  # `constant` copies writable arrays
    return array


def _read(value: Any) -> np.ndarray[Any, Any]:
    """Return the elements of a value by the first of its protocols that works."""
    failure: Exception | None = None
    try:
        # A tensor of torch may be lazily conjugated or negated, which its memory does not reflect.
        for resolve in ("resolve_conj", "resolve_neg"):
            if hasattr(value, resolve):
                value = getattr(value, resolve)()
    except Exception as error:  # a library may raise anything, here and below
        failure = error
    for reader in _readers(value):
        try:
            return reader(value)
        except OperandError:
            raise
        except Exception as error:
            failure = failure or error
    raise _unreadable(value, failure)


def _readers(value: Any) -> list[Callable[[Any], np.ndarray[Any, Any]]]:
    """Return the functions to try. NumPy's come first, because they also copy from devices."""
    readers: list[Callable[[Any], np.ndarray[Any, Any]]] = []
    if _has(value, *_NUMPY_PROTOCOLS):
        readers.append(np.asarray)
    elif _is_buffer(value):
        readers.append(_read_buffer)
    if _has(value, "__dlpack__"):
        readers.append(read)
    return readers


def _read_buffer(value: Any) -> np.ndarray[Any, Any]:
    # NumPy would return an array of objects for a memoryview that was released.
    return np.asarray(memoryview(value))


def _has(value: Any, *names: str) -> bool:
    """Return whether a value has any of the attributes."""
    for name in names:
        try:
            if getattr(value, name) is not None:
                return True
        except AttributeError:
            pass
        except Exception:  # a property that raises, whose reason `read_array` reports
            return True
    return False


def _is_buffer(value: Any) -> bool:
    """Return whether a value has Python's buffer protocol, texts excepted."""
    if isinstance(value, _TEXT):
        return False
    if isinstance(value, memoryview):
        return True
    try:
        memoryview(value).release()
    except (TypeError, BufferError):
        return False
    return True


def _unreadable(value: Any, failure: Exception | None) -> UnreadableArrayError:
    """Return the error for an array that no protocol reads."""
    what = describe(value)
    if _attribute(value, "requires_grad") is True:
        return UnreadableArrayError(f"{what} that requires gradients", "write array.detach()")
    try:
        is_on_host = value.__dlpack_device__()[0] in HOST_DEVICES
    except Exception:  # not a DLPack object
        is_on_host = True
    if not is_on_host:
        fix = "copy it to the memory of the host" + (": array.cpu()" if _has(value, "cpu") else "")
        return UnreadableArrayError(f"{what} in the memory of a device", fix)
    reason = "it has no elements"
    if failure is not None:
        text = (_text_of(failure).strip() or "no reason given").partition("\n")[0][:300]
        reason = f"{type(failure).__name__}: {text}"
    return UnreadableArrayError(
        f"{what} that can't be read: {reason}", "convert it to a NumPy array first"
    )


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute of a value of another library; None if reading the attribute fails."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # the exception of another library
        return ""


def describe(value: Any) -> str:
    """Describe a value for messages: the shape of an array, the type of anything else."""
    if isinstance(value, np.ma.MaskedArray):
        return "a masked array"
    dtype, sizes = _attribute(value, "dtype"), _attribute(value, "shape")
    kind = type(value).__name__
    article = "an" if kind[0] in "aeiouAEIOUX" else "a"
    if dtype is not None and isinstance(sizes, tuple):
        listed = ",".join(str(size) for size in sizes)
        try:
            shape = f"{pt.from_dtype(dtype)}[{listed}]"
        except ValueError:
            if isinstance(value, (np.ndarray, np.generic)):
                return f"an array {dtype}[{listed}]"
            return f"{article} {kind} of {dtype}[{listed}]"
        # An object with sizes may have no elements: a jax.ShapeDtypeStruct.
        has_elements = _has(value, "__array__", "__dlpack__")
        return shape if has_elements else f"{article} {kind} of {shape}"
    return "None" if value is None else f"{article} {kind}"
