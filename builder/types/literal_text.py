"""Print constants as HLO text, exact to the last bit of every element.

HLO's parser reads ``-0`` as an integer, without its sign. In place of an array, the parser
accepts ``{...}`` or a scalar, and makes up the elements. This module prints none of these.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from builder.types import primitive_type as pt
from builder.types.constant import is_splat, splat_or_array
from builder.types.primitive_type import PrimitiveType

# The types whose NaN payload the parser reads, with the width of the mantissa.
_PAYLOAD_BITS = {
    "f8e3m4": 4,
    "f8e4m3": 3,
    "f8e5m2": 2,
    "f16": 10,
    "bf16": 7,
    "f32": 23,
    "f64": 52,
}


def splat_value(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return the repeated value of an array of two or more identical elements, else None."""
    if array.size < 2:
        return None
    if is_splat(array):
        return splat_or_array(array)
    rows = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    if (rows != rows[0]).any():
        return None
    value: np.ndarray[Any, Any] = array.reshape(-1)[:1].reshape(())
    return value


def literal_text(array: np.ndarray[Any, Any], element_type: PrimitiveType) -> str:
    """Return the text between the parentheses of ``constant(...)``."""
    texts = _element_texts(array.reshape(-1), element_type)
    if array.ndim == 0:
        return texts[0]
    grouped = array.shape[1:]
    if 0 in array.shape:
        # An empty dimension is printed for each index of the preceding ones, later ones are not.
        place = array.shape.index(0)
        texts = ["{}"] * math.prod(array.shape[:place]) if place else []
        grouped = array.shape[1:place]
    for size in reversed(grouped):
        texts = ["{" + ", ".join(texts[i : i + size]) + "}" for i in range(0, len(texts), size)]
    return "{" + ", ".join(texts) + "}"


def _element_texts(flat: np.ndarray[Any, Any], element_type: PrimitiveType) -> list[str]:
    if element_type is pt.pred:
        return ["true" if v else "false" for v in flat.tolist()]
    if element_type.is_integral:
        wide = flat.astype(np.int64 if element_type.is_signed else np.uint64)
        return [str(v) for v in wide.tolist()]
    if element_type.is_complex:
        parts = element_type.real_type
        real = _element_texts(np.ascontiguousarray(flat.real), parts)
        imag = _element_texts(np.ascontiguousarray(flat.imag), parts)
        return [f"({r}, {i})" for r, i in zip(real, imag, strict=True)]
    with np.errstate(invalid="ignore"):  # signalling NaNs; `_nan_text` reads their bits
        values = flat.astype(np.float64).tolist()
    return [
        _nan_text(flat[i], element_type) if v != v else _float_text(v) for i, v in enumerate(values)
    ]


def _float_text(value: float) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 1e15 and (value or math.copysign(1, value) > 0):
        return str(int(value))
    return repr(value)


def _nan_text(value: Any, element_type: PrimitiveType) -> str:
    width = _PAYLOAD_BITS.get(element_type.name)
    if width is None:
        sign = "-" if np.signbit(np.float32(value)) else ""
        return f"{sign}nan"
    raw = int.from_bytes(np.asarray(value).tobytes(), "little")
    sign = "-" if raw >> (element_type.bits - 1) else ""
    payload = raw & ((1 << width) - 1)
    return f"{sign}nan" if payload == 1 << (width - 1) else f"{sign}nan({payload:#x})"
