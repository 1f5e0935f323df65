"""The errors that xlabuilder raises.

Each carries its facts as attributes besides the message: `op`, the name of the operation;
`shapes`, the operand shapes by argument name; `dimension`, where one dimension is at fault.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, Self

from builder.support.caller import caller_frame

__all__ = [
    "BuilderError",
    "ConstantError",
    "OperandError",
    "PrimitiveTypeError",
    "ShapeInferenceError",
    "ShapeTextError",
    "SignatureError",
    "UnknownNameError",
    "XlaError",
]


_AROUND: Final = 100


def _caller() -> str | None:
    """ "file:line" of the caller, outside of this library."""
    frame = caller_frame(sys._getframe(1))
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def brief(value: object, limit: int = 200) -> str:
    """`value` as messages show it: short, whatever it is (Python refuses to write huge ints)."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"(an int of {value.bit_length()} bits)"
    try:
        text = repr(value)
    except Exception:  # what a user passes may fail in any way; the message must not
        text = f"(a {type(value).__name__})"
    return text if len(text) <= limit else text[: limit - 3] + "..."


class XlaError(Exception):
    """Base of every error that xlabuilder raises for wrong input.

    Attributes:
        op: name of the operation, or None.
        shapes: shapes of the operands by argument name (empty where there are none).
        dimension: number of the dimension at fault, or None.
        location: "file:line" of the caller, the nearest line outside this library; it also stands
            below the message in a traceback, which goes on into the library's own frames.
    """

    def __init__(
        self,
        message: str,
        *,
        op: str | None = None,
        shapes: Mapping[str, Any] | None = None,
        dimension: int | None = None,
    ) -> None:
        super().__init__(message)
        self.op = op
        self.shapes = dict(shapes or {})
        self.dimension = dimension
        self.location = _caller()
        if self.location is not None:
            self.add_note(f"at {self.location}")

    def in_argument(self, op: str, name: str) -> Self:
        """This error, which names from now on the op and the argument that it is about."""
        self.args = (f"{op}: {name}: {self}",)
        self.op = op
        return self


class ShapeInferenceError(XlaError, ValueError):
    """The operands' shapes, or the op's attributes, break a rule of the operation."""


class SignatureError(ShapeInferenceError):
    """A computation given to an op (reducer, condition, body, branch) has the wrong signature."""


class OperandError(XlaError, TypeError):
    """An operand is not what the op takes: no XlaOp, or a Python value that can't become one."""


class ConstantError(XlaError, ValueError):
    """A Python or NumPy value can't be held by the element type asked for."""


class PrimitiveTypeError(XlaError, ValueError):
    """A name or a NumPy type that no primitive type of XLA corresponds to."""


class BuilderError(XlaError, RuntimeError):
    """A builder is used out of order: foreign ops, already built, parameters missing or twice."""


class UnknownNameError(XlaError, AttributeError):
    """There is nothing of this name in `builder`; the message says where it is, or what is near."""


class ShapeTextError(XlaError, ValueError):
    """The text of a shape or layout is malformed; `position` says where."""

    def __init__(self, message: str, *, text: str, position: int) -> None:
        # Of a long text what stands around the place.
        start = max(position - _AROUND, 0) if len(text) > 2 * _AROUND else 0
        part = text[start : start + 2 * _AROUND]
        before = "..." if start else ""
        after = "..." if start + len(part) < len(text) else ""
        arrow = " " * (len(before) + position - start) + "^"
        super().__init__(f"{message}\n  {before}{part}{after}\n  {arrow}")
        self.text = text
        self.position = position
