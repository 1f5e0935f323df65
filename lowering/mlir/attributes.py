"""MLIR attributes as rules write them: in MLIR's text, which stands for them until MLIR reads it.

Only what there is much of is kept as it is: the elements of arrays (`DenseElements`), lists of
numbers (`i64_array`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from builder.types.constant import is_splat, splat_or_array
from builder.types.shape import ArrayShape
from lowering.mlir.types import type_text

__all__ = [
    "ARGUMENT_NAME",
    "UNIT",
    "Attribute",
    "DenseElements",
    "array",
    "boolean",
    "dense_elements",
    "dictionary",
    "encodable",
    "i32",
    "i64",
    "i64_array",
    "quoted",
    "symbol",
]


class DenseElements:
    """The elements of an array, without their text, which may be long.

    Attributes:
        array: contiguous, of the very element type; it isn't changed as long as this is there.
        shape: its shape.
    """

    __slots__ = ("array", "shape")

    def __init__(self, array: np.ndarray[Any, Any], shape: ArrayShape) -> None:
        self.array = array
        self.shape = shape


Attribute = str | DenseElements | tuple[int, ...] | bytes
"""MLIR text, the elements of an array, the numbers of an `i64_array`, or the reference to what is
in a module's tables already."""

ARGUMENT_NAME: Final = "xlabuilder.name"
"""The attribute of an argument that is the name of the parameter."""

UNIT: Final = "unit"
"""An attribute that says something by being there."""


def encodable(text: str) -> str:
    """The text with question marks for what UTF-8, which MLIR speaks, can't say."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_PLAIN: Final = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')


def quoted(text: str) -> str:
    """A string attribute."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    data = text.encode("utf-8", "replace")
    inside = "".join(chr(byte) if byte in _PLAIN else f"\\{byte:02X}" for byte in data)
    return f'"{inside}"'


def symbol(name: str) -> str:
    """A reference to the function of this name."""
    return f"@{quoted(name)}"


def i64_array(values: tuple[int, ...]) -> Attribute:
    """`array<i64: ...>`, the form of most lists of dimensions."""
    return values


def i64(value: int) -> str:
    """A 64-bit integer attribute."""
    return f"{value} : i64"


def i32(value: int) -> str:
    """A 32-bit integer attribute."""
    return f"{value} : i32"


def boolean(value: bool) -> str:
    """A Boolean attribute."""
    return "true" if value else "false"


def array(values: Iterable[str]) -> str:
    """An array attribute."""
    return f"[{', '.join(values)}]"


def dictionary(values: Mapping[str, str]) -> str:
    """A dictionary attribute."""
    return "{" + ", ".join(f"{quoted(name)} = {value}" for name, value in values.items()) + "}"


def dense_elements(elements: np.ndarray[Any, Any], shape: ArrayShape) -> Attribute:
    """The elements of an array of this shape.

    The array must be C-contiguous, of that shape and exactly of its element type: MLIR does not
    look, and reads wrong bytes as if they were right. `builder` has seen to it. Of an array that
    repeats one element, that element alone goes there.
    """
    if not elements.size:
        return f"dense<> : {type_text(shape)}"
    if is_splat(elements):
        elements = splat_or_array(elements)
        if elements.dtype == np.bool_:
            # One byte for several preds is eight of them to MLIR.
            elements = np.where(elements, np.uint8(255), np.uint8(0))
    return DenseElements(elements, shape)
