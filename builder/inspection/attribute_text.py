"""Print the attributes of single ops as short HLO text."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Printer
from builder.schema.syntax import braces, quoted
from builder.types.literal_text import literal_text
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import UNBOUNDED

_MAX_LENGTH: Final = 240

_MAX_ELEMENTS: Final = 8


class _SeveralInstructionsError(Exception):
    """Raised by the printer if HLO text needs several instructions for an op."""


class AttributePrinter(Printer):
    """Prints the attributes of single ops as the HLO printer does.

    If HLO text expresses an op by several instructions, or without attributes, the attributes are
    printed with their recorded names.
    """

    def operand(self, op: XlaOp) -> str:
        return f"%{op.id}"

    def helper(self, *_arguments: Any) -> str:
        raise _SeveralInstructionsError

    def attributes(self, op: XlaOp) -> str:
        """Return the text of an op's attributes, including sharding and frontend attributes."""
        texts = [self._attributes(op)] if op.attributes else []
        if op.metadata is not None:
            texts.append(self.annotations(op).removeprefix(", "))
        return abbreviated(", ".join(filter(None, texts)))

    def _attributes(self, op: XlaOp) -> str:
        if op.opcode == "constant":
            return constant_text(op.attributes["value"], op.shape.element_type)
        try:
            _, _, text = self.parts(op)
        except _SeveralInstructionsError:
            text = ""
        if text:
            return text.removeprefix(", ")
        return ", ".join(
            f"{name}={value_text(value, self.called)}"
            for name, value in op.attributes.items()
            if value is not None
        )


def constant_text(value: np.ndarray[Any, Any], element_type: PrimitiveType) -> str:
    """Return the value of a constant as text; for a large constant, only the first elements.

    Example:
        >>> import builder as xb, numpy as np
        >>> constant_text(np.array([1.5, 2.0], np.float32), xb.f32)
        '{1.5, 2}'
        >>> constant_text(np.arange(100, dtype=np.int32), xb.s32)
        '{0, 1, 2, 3, 4, 5, 6, 7, ...}'
        >>> constant_text(np.broadcast_to(np.float32(3), (100, 100)), xb.f32)
        '{3, ...}'
    """
    if value.size <= _MAX_ELEMENTS:
        return literal_text(value, element_type)
    # A constant with strides of 0 repeats one element, which is printed once.
    count = _MAX_ELEMENTS if any(value.strides) else 1
    first = np.array([value[np.unravel_index(i, value.shape)] for i in range(count)], value.dtype)
    return literal_text(first, element_type).removesuffix("}") + ", ...}"


def value_text(value: Any, called: Any = lambda computation: f"%{computation.name}") -> str:
    """Return the value of an attribute as short text.

    Args:
        value: any attribute of an op.
        called: a function that returns the text for a computation.
    """
    if type(value) is int and value == UNBOUNDED:
        return "?"
    if isinstance(value, XlaComputation):
        return str(called(value))
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (tuple, list)):
        # Truncated, because the value may have millions of elements.
        return braces(value_text(element, called) for element in value[:_MAX_LENGTH])
    if isinstance(value, Mapping):
        return braces(f"{name}={value_text(entry, called)}" for name, entry in value.items())
    if isinstance(value, np.ndarray):
        return f"({value.dtype}{list(value.shape)})"
    return abbreviated(str(value))


def abbreviated(text: str) -> str:
    """Return the text, truncated with dots if it is long."""
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 3] + "..."
