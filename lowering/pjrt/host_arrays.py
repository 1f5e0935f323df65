"""Arrays of the host: the elements of what is given as one, and values in words for messages."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from lowering.errors import ArgumentError

__all__ = ["describe", "host_array", "read_array"]


def host_array(value: Any) -> np.ndarray[Any, Any] | None:
    """The elements of NumPy arrays and scalars and of dlpack objects as a NumPy array.

    The array may share the memory of `value`. None when `value` is nothing of the kind, or can't
    be read from the host.
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
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError):
        pass  # a type that NumPy lacks (bfloat16), or memory of a device
    try:
        # Without x64, jax would make 64-bit elements into 32-bit ones.
        with jax.enable_x64(True):
            return np.asarray(jax.dlpack.from_dlpack(value))
    except Exception:  # whatever the exporter raises
        return None


def read_array(op: str, value: Any) -> np.ndarray[Any, Any] | None:
    """As `host_array`, and of a jax.Array, which must be there and in reach."""
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        return host_array(value)
    if value.is_deleted():
        raise ArgumentError(
            f"{op}: expected an array, got a jax.Array that has been deleted", op=op
        )
    if not value.is_fully_addressable:
        raise ArgumentError(
            f"{op}: expected an array of this process, got a jax.Array on devices of others", op=op
        )
    return np.asarray(value)


def describe(value: Any) -> str:
    """A value given, shortly: the shape of an array, the type of anything else."""
    if isinstance(value, np.ma.MaskedArray):
        return "a masked array"
    if hasattr(value, "dtype") and isinstance(getattr(value, "shape", None), tuple):
        sizes = ",".join(str(s) for s in value.shape)
        try:
            found = f"{pt.from_dtype(value.dtype)}[{sizes}]"
        except ValueError:
            return f"an array {value.dtype}[{sizes}]"
        # What has sizes need not have elements: a jax.ShapeDtypeStruct has none.
        has_elements = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
        return found if has_elements else f"a {type(value).__name__} of {found}"
    if value is None:
        return "None"
    if isinstance(value, XlaOp):
        return f"the XlaOp {value}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
