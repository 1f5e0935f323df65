"""Read array-like values as NumPy arrays, and describe values in messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from builder.errors import error_of
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from lowering.errors import ArgumentError
from lowering.jaxlib_api import jax_arrays

_JaxArray: Final = jax_arrays.array_type

TRUNCATED_BY_JAX: Final = frozenset(map(np.dtype, ("f8", "i8", "u8", "c16")))
"""The dtypes f64, s64, u64 and c128: if jax's x64 flag is off, jaxlib converts NumPy arrays of
these dtypes to f32, s32, u32 and c64."""


def host_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Return a NumPy array, a NumPy scalar or a dlpack object as a NumPy array.

    The array may share the memory of `value`. Return None for any other value, for a masked array,
    and for a dlpack object that the host can't read.
    """
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            return None
        plain = np.asarray(value)
        if not plain.dtype.isnative:
            plain = plain.astype(plain.dtype.newbyteorder("="))
        return plain
    if not hasattr(value, "__dlpack__"):
        return None
    try:
        # The memory of a tensor of torch does not reflect a lazy conjugation or negation.
        for resolve in ("resolve_conj", "resolve_neg"):
            if hasattr(value, resolve):
                value = getattr(value, resolve)()
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError):
        pass  # a type that NumPy does not support (bfloat16), or memory of a device
    try:
        # Without x64, jax would convert 64-bit elements to 32 bits.
        with jax.enable_x64(True):
            return np.asarray(jax.dlpack.from_dlpack(value))
    except Exception:  # the exporter may raise anything
        return None


def copy_numpy(values: Sequence[Any]) -> Sequence[Any] | None:
    """Copy the NumPy arrays among the arguments that jaxlib will transfer to the device.

    jaxlib transfers NumPy arrays fastest when it executes a program. But jaxlib may read the arrays
    while the program runs, and the caller may write to the original arrays at that time.

    Returns:
        The arguments with copied NumPy arrays; `values` itself if all are jax.Arrays. None if a
        value has another type, if jaxlib would convert an array (see `TRUNCATED_BY_JAX`), or if
        there is not enough memory.
    """
    arrays = []
    is_same = True
    for value in values:
        if type(value) is _JaxArray:
            arrays.append(value)
            continue
        is_same = False
        if type(value) is np.ndarray:
            if value.dtype in TRUNCATED_BY_JAX or not value.dtype.isnative:
                return None
            try:
                arrays.append(value.copy())
            except MemoryError:
                return None
        elif isinstance(value, np.generic) and value.dtype not in TRUNCATED_BY_JAX:
            arrays.append(np.asarray(value))
        else:
            return None
    return values if is_same else arrays


def check_readable(op: str, array: jax.Array) -> None:
    """Raise ArgumentError for a jax.Array that was deleted, or is on other processes' devices."""
    if array.is_deleted():
        rule = "expected an array, got a jax.Array that has been deleted"
        raise error_of(ArgumentError, op, rule)
    if not array.is_fully_addressable:
        rule = "expected an array of this process, got a jax.Array on devices of other processes"
        raise error_of(ArgumentError, op, rule)


def read_array(op: str, value: Any) -> np.ndarray[Any, Any] | None:
    """Return an array-like value or a jax.Array as a NumPy array; None for other values."""
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        return host_array(value)
    check_readable(op, value)
    return np.asarray(value)


def describe(value: Any) -> str:
    """Describe a value for messages: the shape of an array, the type of anything else."""
    if isinstance(value, np.ma.MaskedArray):
        return "a masked array"
    if hasattr(value, "dtype") and isinstance(getattr(value, "shape", None), tuple):
        sizes = ",".join(str(s) for s in value.shape)
        try:
            shape = f"{pt.from_dtype(value.dtype)}[{sizes}]"
        except ValueError:
            return f"an array {value.dtype}[{sizes}]"
        # An object with sizes may have no elements: a jax.ShapeDtypeStruct.
        has_elements = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
        return shape if has_elements else f"a {type(value).__name__} of {shape}"
    if value is None:
        return "None"
    if isinstance(value, XlaOp):
        return str(value)
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOUX' else 'a'} {kind}"
