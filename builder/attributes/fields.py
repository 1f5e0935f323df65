"""Helpers for attribute bundles: conversion of fields, enumerations passed by name."""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar, Final, Self, TypeVar

import numpy as np

from builder.checking import integer, integers, refusal
from builder.errors import XlaError
from builder.support.bundles import Bundle

B = TypeVar("B")

_MOST: Final = 2**20
"""The limit on the entries that are read from an argument, which may be an infinite iterator."""


def set_integers(bundle: Bundle, *values: Any) -> None:
    """Set the fields of a bundle to ints and tuples of ints.

    A field annotated ``int`` becomes an int, any other field a tuple of ints. Error messages name
    the class and the field.
    """
    kind = type(bundle).__name__
    for (name, field), value in zip(bundle.__dataclass_fields__.items(), values, strict=True):
        convert: Any = integer if field.type == "int" else integers
        object.__setattr__(bundle, name, convert(kind, name, value))


def construct(kind: Callable[..., B], op: str, *values: Any, **named: Any) -> B:
    """Return ``kind(*values, **named)``; error messages name `op` instead of the class `kind`."""
    try:
        return kind(*values, **named)
    except XlaError as error:
        raise error._renamed(op) from None


class NamedEnum(enum.Enum):
    """An enumeration whose members can be passed by name, and by number if it is an IntEnum.

    ``class Kind(NamedEnum, op="fft", argument="kind")`` names the op and the argument for messages.
    """

    _parameter_of: ClassVar[tuple[str, str]]

    def __init_subclass__(cls, *, op: str, argument: str) -> None:
        super().__init_subclass__()
        cls._parameter_of = op, argument

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    @classmethod
    def of(cls, value: Any, op: str | None = None) -> Self:
        """Return `value` as a member; the name or the number of a member is converted.

        Args:
            value: a member, its name, or its number if the members have XLA's numbers.
            op: the op to name in messages; None for the op that the enumeration belongs to.

        Raises:
            ShapeInferenceError: `value` is none of these.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value in cls.__members__:
            return cls[value]
        is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if is_number and issubclass(cls, int):
            with suppress(ValueError):
                return cls(int(value))
        default_op, argument = cls._parameter_of
        names = list(cls.__members__)
        rule = f"{argument} must be one of {', '.join(names)}"
        fix = f"write for instance xb.{cls.__name__}.{names[0]} or {names[0]!r}"
        raise refusal(op or default_op, rule, value, fix)


def sequence_or_none(values: Any) -> tuple[Any, ...] | None:
    """Return the entries of an iterable as a tuple, or None if it is not suitable as an argument.

    The result is None for a string, bytes, an op, a value that is not iterable, and an iterable of
    2**20 or more entries.
    """
    if isinstance(values, (str, bytes)):
        return None
    try:
        entries = tuple(islice(unpackable(values), _MOST))
    except TypeError:
        return None
    return None if len(entries) == _MOST else entries


def unpackable(value: Any) -> Any:
    """Return `value`, which the caller will unpack; raise TypeError for an op.

    Raises:
        TypeError: `value` is an op. Unpacking an op of tuple shape would record its elements.
    """
    if hasattr(value, "opcode"):
        raise TypeError
    return value
