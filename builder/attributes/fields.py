"""What the attribute bundles share."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

from builder.errors import ShapeInferenceError, shown

__all__ = ["member", "opened", "set_integers"]

E = TypeVar("E", bound=enum.Enum)


def set_integers(bundle: Any, op: str, *names: str) -> None:
    """Makes tuples of ints of the named fields of a frozen dataclass."""
    from builder.shape_inference.check import integers  # inference builds on this module

    for name in names:
        object.__setattr__(bundle, name, integers(op, name, getattr(bundle, name)))


def member(enumeration: type[E], op: str, name: str, value: Any) -> E:
    """`value` itself, or the member of an enumeration that has this name.

    Raises:
        ShapeInferenceError: it is neither.
    """
    if isinstance(value, enumeration):
        return value
    if isinstance(value, str) and value in enumeration.__members__:
        return enumeration[value]
    names = list(enumeration.__members__)
    raise ShapeInferenceError(
        f"{op}: {name} must be one of {', '.join(names)}, got {shown(value)}\n"
        f"fix: write xb.{enumeration.__name__}.{names[0]}, or the name as text",
        op=op,
    )


def opened(value: Any) -> Any:
    """`value`, which is going to be taken apart.

    Raises:
        TypeError: it is an op; one of a tuple would be taken apart, and its elements recorded.
    """
    if hasattr(value, "opcode"):
        raise TypeError
    return value
