"""Attributes as MLIR prints them: numbers, strings, and the attributes of composite ops."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from builder.checking import refusal
from builder.errors import ShapeInferenceError, error_of


def float_text(value: float, bits: int) -> str:
    """Return the text of a float; infinities and NaNs are printed as hexadecimal bit patterns.

    Example:
        >>> float_text(1e-5, 64), float_text(float("inf"), 32)
        ('1.0e-05', '0x7F800000')
    """
    if not math.isfinite(value):
        code = {16: "<e", 32: "<f", 64: "<d"}[bits]
        return f"0x{int.from_bytes(struct.pack(code, value), 'little'):0{bits // 4}X}"
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def quoted(data: bytes, also: bytes = b"") -> str:
    """Return bytes as a quoted MLIR string.

    Quotes, backslashes, bytes that are not printable ASCII, and the bytes in `also` are escaped.

    Example:
        >>> quoted(b'a "b"')
        '"a \\\\22b\\\\22"'
    """
    special = rb'[\x00-\x1f\x7f-\xff"\\' + re.escape(also) + b"]"
    escaped = re.sub(special, lambda match: b"\\%02X" % match[0][0], data)
    return f'"{escaped.decode()}"'


_BARE_NAME = r"[A-Za-z_][A-Za-z0-9_$.]*"
_DEEPEST = 50
_refusal = partial(refusal, "composite_call")


def composite_attributes_text(attributes: Any) -> str:
    """Return a mapping as MLIR text: ``{axis = 1 : i64, name = "gelu"}``, sorted by name.

    A string in braces is returned unchanged, because lowering parses it.

    Values are bools, integers (i64, or the type of a NumPy number), floating-point numbers
    (f64, or the type of a NumPy number), strings, sequences of these and mappings of these.

    Raises:
        ShapeInferenceError: a value has another type; a string is not in braces.

    Example:
        >>> composite_attributes_text({"eps": 1e-5, "axes": [0, 1], "exact": True})
        '{axes = [0 : i64, 1 : i64], eps = 1.0e-05 : f64, exact = true}'
    """
    if attributes is None:
        return "{}"
    if isinstance(attributes, str) and attributes[:1] + attributes[-1:] == "{}":
        try:
            attributes.encode()
        except UnicodeEncodeError:
            rule = "the text of attributes must be a string that UTF-8 can encode"
            raise _refusal(rule, attributes) from None
        return attributes
    if not isinstance(attributes, Mapping):
        rule = "attributes must be a mapping of names to values, or the text of an MLIR dictionary"
        raise _refusal(rule, attributes)
    return _text(attributes, 0)


def _text(value: Any, depth: int) -> str:
    if depth > _DEEPEST:
        rule = f"attributes may nest at most {_DEEPEST} deep"
        raise error_of(ShapeInferenceError, "composite_call", rule, got="deeper nesting")
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, np.integer):
        return f"{int(value)} : {'' if value.dtype.kind == 'i' else 'u'}i{8 * value.itemsize}"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise _refusal("an integer among the attributes must fit 64 bits", value)
        return f"{value} : i64"
    if isinstance(value, (float, np.float16, np.float32)):
        bits = 8 * value.itemsize if isinstance(value, np.floating) else 64
        return f"{float_text(float(value), bits)} : f{bits}"
    if isinstance(value, str):
        return quoted(value.encode("utf-8", "replace"))
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str) or not name:
                raise _refusal("the names of attributes must be non-empty strings", name)
        return "{" + ", ".join(_entry(name, value[name], depth) for name in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(entry, depth + 1) for entry in value) + "]"
    raise _refusal(
        "an attribute must be a bool, a number, a string, or a sequence or mapping of these", value
    )


def _entry(name: str, value: Any, depth: int) -> str:
    key = name if re.fullmatch(_BARE_NAME, name) else quoted(name.encode("utf-8", "replace"))
    return f"{key} = {_text(value, depth + 1)}"
