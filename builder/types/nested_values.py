"""Flatten values that are nested like a tuple shape."""

from __future__ import annotations

from typing import Any

from builder.types.foreign_arrays import describe
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape


class NestingError(Exception):
    """A value is not nested like its shape.

    Attributes:
        path: the position of the mismatch: "[0][1]".
        shape: the tuple shape at this position.
        got: the description of the value at this position, for messages.
    """

    def __init__(self, path: str, shape: TupleShape, value: Any) -> None:
        self.path = path
        self.shape = shape
        self.got = describe(value)
        if isinstance(value, (tuple, list)):
            self.got = f"a {type(value).__name__} of {len(value)}"


def flatten_value(value: Any, shape: Shape) -> list[tuple[Any, ArrayShape | TokenShape, str]]:
    """Flatten a value of tuples and lists that is nested like `shape`.

    Returns:
        For each leaf of `shape`: the value, the shape and the path ("[0][1]").

    Raises:
        NestingError: a tuple or list is missing, or has a different length.
    """
    flat: list[tuple[Any, ArrayShape | TokenShape, str]] = []
    stack: list[tuple[Any, Shape, str]] = [(value, shape, "")]
    while stack:
        part, expected, path = stack.pop()
        if not isinstance(expected, TupleShape):
            flat.append((part, expected, path))
            continue
        if not isinstance(part, (tuple, list)) or len(part) != len(expected.elements):
            raise NestingError(path, expected, part)
        for index in range(len(part) - 1, -1, -1):
            stack.append((part[index], expected.elements[index], f"{path}[{index}]"))
    return flat
