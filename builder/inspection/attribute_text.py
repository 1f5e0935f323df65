"""The attributes of an op as short text, in the form of HLO text."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Printer
from builder.hlo_text.syntax import quoted
from builder.schema.kinds import braces
from builder.types.literal_text import literal_text
from builder.types.primitive_type import PrimitiveType

__all__ = ["OpWords", "constant_text", "short", "value_text"]

LONGEST: Final = 240
"""Letters of a text of attributes; what is longer ends in dots."""

_SHOWN_ELEMENTS: Final = 8


class _SeveralInstructionsError(Exception):
    """The printer would print several instructions for the op."""


class OpWords(Printer):
    """Prints the attributes of single ops as the printer of HLO text does.

    Of an op that takes several instructions in HLO text, and of one whose attributes HLO text does
    not have, it prints the recorded attributes by their names.
    """

    def operand(self, op: XlaOp) -> str:
        return f"%{op.id}"

    def helper(self, *_arguments: Any) -> str:
        raise _SeveralInstructionsError

    def attributes(self, op: XlaOp) -> str:
        """The attributes of an op, with its sharding and its frontend attributes."""
        text = self._said(op) if op.attributes else ""
        if op.metadata is not None:
            rest = self.annotations(op).removeprefix(", ")
            text = f"{text}, {rest}" if text and rest else text or rest
        return short(text)

    def _said(self, op: XlaOp) -> str:
        if op.opcode == "constant":
            return constant_text(op.attributes["value"], op.shape.element_type)
        try:
            _, _, rest = self.written(op)
        except _SeveralInstructionsError:
            rest = ""
        if rest:
            return rest.removeprefix(", ")
        return ", ".join(
            f"{name}={value_text(value, self.called)}"
            for name, value in op.attributes.items()
            if value is not None
        )


def constant_text(value: np.ndarray[Any, Any], element_type: PrimitiveType) -> str:
    """The value of a constant: all of a small one, the first elements of a large one.

    Example:
        >>> import builder as xb, numpy as np
        >>> constant_text(np.array([1.5, 2.0], np.float32), xb.f32)
        '{1.5, 2}'
        >>> constant_text(np.arange(100, dtype=np.int32), xb.s32)
        '{0, 1, 2, 3, 4, 5, 6, 7, ...}'
        >>> constant_text(np.broadcast_to(np.float32(3), (100, 100)), xb.f32)
        '{3, ...}'
    """
    if value.size <= _SHOWN_ELEMENTS:
        return literal_text(value, element_type)
    # A constant that repeats one element has strides of 0: it is said once.
    count = _SHOWN_ELEMENTS if any(value.strides) else 1
    first = np.array([value[np.unravel_index(i, value.shape)] for i in range(count)], value.dtype)
    return literal_text(first, element_type).removesuffix("}") + ", ...}"


def value_text(value: Any, called: Any = lambda computation: f"%{computation.name}") -> str:
    """An attribute's value as short text.

    Args:
        value: any attribute of an op.
        called: gives the reference of a computation.
    """
    if isinstance(value, XlaComputation):
        return str(called(value))
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (tuple, list)):
        # As many as may be shown: a constant of a million elements is not written out.
        return braces(value_text(one, called) for one in value[:LONGEST])
    if isinstance(value, Mapping):
        return braces(f"{name}={value_text(one, called)}" for name, one in value.items())
    if isinstance(value, np.ndarray):
        return f"({value.dtype}{list(value.shape)})"
    return short(str(value))


def short(text: str) -> str:
    """The text, or its beginning and dots."""
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
