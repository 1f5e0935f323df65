"""What the attribute bundles share."""

from __future__ import annotations

import enum
from itertools import islice
from typing import Any, ClassVar, Final, Self, TypeVar

import numpy as np

from builder.errors import ShapeInferenceError, brief

__all__ = ["NamedEnum", "enum_member", "sequence_or_none", "set_integers", "unpackable"]

E = TypeVar("E", bound=enum.Enum)

_MOST: Final = 2**20


def set_integers(bundle: Any, op: str, *names: str) -> None:
    """Makes tuples of ints of the named fields of a frozen dataclass."""
    from builder.check import integers  # inference builds on this module

    for name in names:
        object.__setattr__(bundle, name, integers(op, name, getattr(bundle, name)))


def enum_member(enumeration: type[E], op: str, name: str, value: Any) -> E:
    """`value` itself, or the member of an enumeration that has this name.

    Where the members are numbers of XLA's, a number stands for its member, too.

    Raises:
        ShapeInferenceError: it is neither.
    """
    if isinstance(value, enumeration):
        return value
    if isinstance(value, str) and value in enumeration.__members__:
        return enumeration[value]
    if issubclass(enumeration, int) and isinstance(value, (int, np.integer)):
        for one in enumeration:
            if not isinstance(value, bool) and one.value == value:
                return one
    names = list(enumeration.__members__)
    raise ShapeInferenceError(
        f"{op}: {name} must be one of {', '.join(names)}, got {brief(value)}\n"
        f"fix: write xb.{enumeration.__name__}.{names[0]}, or the name as text",
        op=op,
    )


class NamedEnum(enum.Enum):
    """An enumeration whose members may be given by name.

    ``class Kind(Named, op="fft", argument="kind")`` says for messages which argument of which op
    takes them.
    """

    _taken_by: ClassVar[tuple[str, str]]

    def __init_subclass__(cls, *, op: str, argument: str) -> None:
        super().__init_subclass__()
        cls._taken_by = op, argument

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    @classmethod
    def of(cls, value: Any) -> Self:
        """`value` itself, or the member of that name.

        Raises:
            ShapeInferenceError: it is neither.
        """
        return enum_member(cls, *cls._taken_by, value)


def sequence_or_none(values: Any) -> tuple[Any, ...] | None:
    """The values of a sequence; None for what is none: a text, an op, an array of rank 0."""
    try:
        # More than anything has: a range or an iterator that goes on is not read further.
        found = () if isinstance(values, (str, bytes)) else tuple(islice(unpackable(values), _MOST))
    except TypeError:
        return None
    return None if isinstance(values, (str, bytes)) or len(found) == _MOST else found


def unpackable(value: Any) -> Any:
    """`value`, which is going to be taken apart.

    Raises:
        TypeError: it is an op; one of a tuple would be taken apart, and its elements recorded.
    """
    if hasattr(value, "opcode"):
        raise TypeError
    return value
