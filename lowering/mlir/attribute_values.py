"""Read MLIR attributes: their Python values, and the attributes of donated arguments."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from lowering.mlir.operations import attribute_text, dictionary, entry, main_function

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
        return {name: attribute_value(value) for name, value in dictionary(attribute).items()}
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
