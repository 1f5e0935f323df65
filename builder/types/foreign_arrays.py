"""Read arrays as NumPy arrays, whatever library they belong to.

No library is imported. An array is read by a protocol that it implements: Python's buffer
protocol, ``__array__``, ``__array_interface__``, ``__array_struct__`` or ``__dlpack__``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from builder.errors import OperandError
from builder.types import dlpack, primitive_type as pt

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
        readers.append(dlpack.read)
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
        is_on_host = value.__dlpack_device__()[0] in dlpack.HOST_DEVICES
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
