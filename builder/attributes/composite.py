"""The attributes of a composite op, in MLIR's text: HLO text and StableHLO carry the same."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.errors import ShapeInferenceError, brief

__all__ = ["composite_attributes_text"]

_BARE_NAME = r"[A-Za-z_][A-Za-z0-9_$.]*"
_DEEPEST = 50


def composite_attributes_text(attributes: Any) -> str:
    """A mapping as an MLIR dictionary: ``{axis = 1 : i64, name = "gelu"}``, keys in order.

    Values are bools, whole numbers (i64, or the type of a NumPy number), floating-point numbers
    (f64, or the type of a NumPy number), strings, sequences of these and mappings of these.

    Raises:
        ShapeInferenceError: something else.

    Example:
        >>> composite_attributes_text({"eps": 1e-5, "axes": [0, 1], "exact": True})
        '{axes = [0 : i64, 1 : i64], eps = 1.0e-05 : f64, exact = true}'
    """
    if attributes is None:
        return "{}"
    if not isinstance(attributes, Mapping):
        raise _refused("attributes must be a mapping of names to values", attributes)
    return _text(attributes, 0)


def _refused(rule: str, value: Any) -> ShapeInferenceError:
    return ShapeInferenceError(f"composite_call: {rule}, got {brief(value)}", op="composite_call")


def _text(value: Any, depth: int) -> str:
    if depth > _DEEPEST:
        raise ShapeInferenceError(
            f"composite_call: attributes must not be nested deeper than {_DEEPEST}, got more",
            op="composite_call",
        )
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, np.integer):
        return f"{int(value)} : {'' if value.dtype.kind == 'i' else 'u'}i{8 * value.itemsize}"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise _refused("a whole number among the attributes must fit 64 bits", value)
        return f"{value} : i64"
    if isinstance(value, (np.float16, np.float32, np.float64)):
        return _float_text(float(value), 8 * value.itemsize)
    if isinstance(value, float):
        return _float_text(value, 64)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(_entry(k, value[k], depth) for k in _names(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v, depth + 1) for v in value) + "]"
    raise _refused(
        "an attribute must be a bool, a number, a string, or a sequence or mapping of these", value
    )


def _names(value: Mapping[Any, Any]) -> list[str]:
    for name in value:
        if not isinstance(name, str) or not name:
            raise _refused("the names of attributes must be strings, not empty", name)
    return sorted(value)


def _entry(name: str, value: Any, depth: int) -> str:
    written = name if re.fullmatch(_BARE_NAME, name) else _quoted(name)
    return f"{written} = {_text(value, depth + 1)}"


def _float_text(value: float, bits: int) -> str:
    if not math.isfinite(value):  # MLIR has no words for these, but takes the bits
        kind = {16: "<e", 32: "<f", 64: "<d"}[bits]
        return f"0x{int.from_bytes(struct.pack(kind, value), 'little'):0{bits // 4}X} : f{bits}"
    mantissa, mark, exponent = repr(value).partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{mark}{exponent} : f{bits}"


def _quoted(text: str) -> str:
    """A string in MLIR's quotes: what is not plain ASCII as the bytes of its UTF-8."""
    plain = (
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}"
        for b in text.encode("utf-8", "replace")
    )
    return '"' + "".join(plain) + '"'
