"""The MLIR attributes that lowering rules create, as MLIR text.

Two kinds of attributes are not text, because they are large or frequent: the elements of arrays
(`DenseElements`) and integer arrays (`i64_array`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

import numpy as np

from builder.attributes.mlir_text import quoted as quoted_bytes
from builder.types.constant import is_splat, splat_or_array
from builder.types.shape import ArrayShape, Shape, leaves
from lowering.mlir.types import type_text


class DenseElements:
    """The elements of an array as an attribute.

    Attributes:
        array: the elements, C-contiguous and exactly of the shape's element type. The array must
            not change. It has one element if all elements are equal.
        shape: the shape of the attribute's type.
    """

    __slots__ = ("array", "shape")

    def __init__(self, array: np.ndarray[Any, Any], shape: ArrayShape) -> None:
        self.array = array
        self.shape = shape


Attribute = str | DenseElements | tuple[int, ...] | bytes
"""An attribute: MLIR text, the elements of an array, the integers of an `i64_array`, or a reference
(bytes) to an entry of the bytecode's table of attributes."""

ARGUMENT_NAME: Final = "xlabuilder.name"
"""The argument attribute that records the name of the parameter."""

REPLICATION: Final = "mhlo.parameter_replication"
"""The argument attribute that marks an argument as equal on all replicas: ``[true]``."""

UNIT: Final = "unit"
"""The unit attribute, which has no value."""


def encodable(text: str) -> str:
    """Return `text` with question marks for characters that UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def quoted(text: str) -> str:
    """A string attribute, with question marks for characters that UTF-8 cannot encode."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return quoted_bytes(text.encode("utf-8", "replace"))


def symbol(name: str) -> str:
    """A symbol reference attribute, which refers to the function `name`."""
    return f"@{quoted(name)}"


def i64_array(values: tuple[int, ...]) -> Attribute:
    """An attribute `array<i64: ...>`, such as most lists of dimensions."""
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
    """An array attribute of these elements."""
    return f"[{', '.join(values)}]"


def dictionary(values: Mapping[str, str]) -> str:
    """A dictionary attribute of these named values."""
    return "{" + ", ".join(f"{quoted(name)} = {value}" for name, value in values.items()) + "}"


def order_text(shape: ArrayShape) -> str:
    """Return the minor-to-major order of an array's dimensions as text: "[1, 0]".

    The order of an array without elements is always row-major, because XLA aborts when it copies
    such an array to another order.
    """
    if shape.layout is not None and shape.element_count:
        return str(list(shape.layout.minor_to_major))
    return str(list(range(shape.rank - 1, -1, -1)))


def layouts_text(shapes: Iterable[Shape]) -> str:
    """Return the layouts of a custom call's operands or results; row-major for default layouts."""
    texts = []
    for leaf in chain.from_iterable(map(leaves, shapes)):
        rank = leaf.rank if isinstance(leaf, ArrayShape) else 0
        order = order_text(leaf) if isinstance(leaf, ArrayShape) and rank else ""
        texts.append(f"dense<{order}> : tensor<{rank}xindex>")
    return array(texts)


def dense_elements(elements: np.ndarray[Any, Any], shape: ArrayShape) -> Attribute:
    """The elements of an array as an attribute; if all are equal, one element is stored.

    `elements` must be C-contiguous, and exactly of the sizes and the element type of `shape`, as
    `builder` ensures. MLIR does not check this, and would read wrong values.
    """
    if not elements.size:
        return f"dense<> : {type_text(shape)}"
    if is_splat(elements):
        elements = splat_or_array(elements)
        if elements.dtype == np.bool_:
            # MLIR reads the byte of a splat of i1 as eight elements.
            elements = np.where(elements, np.uint8(255), np.uint8(0))
    return DenseElements(elements, shape)
