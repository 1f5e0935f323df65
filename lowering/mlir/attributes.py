"""MLIR attributes: those that lowering rules create, as MLIR text, and their values in Python."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.attributes.mlir_text import quoted as quoted_bytes
from builder.types.constant import is_splat, splat_or_array
from builder.types.shape import ArrayShape, Shape, leaves
from lowering.mlir import operations
from lowering.mlir.operations import attribute_text, entry, main_function
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


_CASE: Final = re.compile(r"#(?:stablehlo|chlo|mhlo)<\w+ (\w+)>")
_LISTS: Final = (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseBoolArrayAttr)
_MOST: Final = 1 << 24
_HAVE_VALUE: Final = (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.FlatSymbolRefAttr)


UNREADABLE: Final = "has elements that can't be read"
"""The rule in the message for an attribute for which `attribute_value` raises TypeError."""


def attribute_value(attribute: Any) -> Any:
    """Return the value of an attribute.

    Numbers, bools and strings are converted to int, float, bool and str, arrays to tuples,
    dictionaries to dicts, dense integers to NumPy arrays, symbols to their names, a unit to True,
    and enumerations to the name of the case. Other attributes are returned unchanged.

    Raises:
        TypeError: MLIR's Python bindings have no class for an entry of a dictionary, or dense
            integers have more than 16,777,216 elements, which a small file can declare.
        KeyError: the entries of a dictionary are not sorted by name.
    """
    if isinstance(attribute, _LISTS):
        return tuple(attribute)
    if isinstance(attribute, _HAVE_VALUE):
        return attribute.value
    if isinstance(attribute, ir.StringAttr):
        return attribute_text(attribute)
    if isinstance(attribute, ir.UnitAttr):
        return True
    if isinstance(attribute, ir.ArrayAttr):
        return tuple([attribute_value(element) for element in attribute])
    if isinstance(attribute, ir.DictAttr):
        return {
            name: attribute_value(value) for name, value in operations.dictionary(attribute).items()
        }
    if isinstance(attribute, ir.DenseIntElementsAttr):
        if math.prod(ir.ShapedType(attribute.type).shape) > _MOST:
            raise TypeError("too many elements")
        return np.array(attribute)
    case = _CASE.fullmatch(str(attribute))
    return attribute if case is None else case[1]


class ReadableAttribute:
    """An MLIR attribute; see `builder.schema.kinds.Readable`."""

    def __init__(self, attribute: ir.Attribute) -> None:
        self._attribute = attribute

    def text(self) -> str:
        return str(self._attribute)

    def value(self) -> Any:
        return attribute_value(self._attribute)

    def data(self) -> bytes | None:
        is_string = isinstance(self._attribute, ir.StringAttr)
        return ir.StringAttr(self._attribute).value_bytes if is_string else None

    def equals(self, text: str) -> bool:
        return ir.Attribute.parse(text, self._attribute.context) == self._attribute


ALIASING: Final = "tf.aliasing_output"
"""The argument attribute whose value is the number of the result that aliases the argument."""

DONOR: Final = "jax.buffer_donor"
"""The argument attribute, true if XLA may reuse the argument's memory for any value."""


def donated_arguments(module: ir.Module) -> frozenset[int]:
    """Return the numbers of the arguments of @main that a call donates."""
    attributes = main_function(module.operation).attributes
    arguments = ir.ArrayAttr(attributes["arg_attrs"]) if "arg_attrs" in attributes else ()
    return frozenset(n for n, values in enumerate(arguments) if is_donated(ir.DictAttr(values)))


def is_donated(attributes: Mapping[str, Any] | ir.DictAttr) -> bool:
    """Return whether an argument with these attributes is donated."""
    if ALIASING in attributes:
        return True
    return str(entry(attributes, DONOR)) == "true"
