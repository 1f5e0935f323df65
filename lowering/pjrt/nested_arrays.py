"""Read a nested value of arrays for a shape: the result of a Python function, a value to send."""

from __future__ import annotations

from typing import Any

import numpy as np

from builder.types.expected_arrays import array_for, describe_array
from builder.types.foreign_arrays import UnreadableArrayError
from builder.types.nested_values import NestingError, flatten_value
from builder.types.shape import ArrayShape, Shape, TokenShape
from lowering.pjrt.host_arrays import describe


class MismatchError(Exception):
    """A value does not have the expected shape; the message is the rule with the value.

    Attributes:
        fix: an imperative sentence, or empty.
    """

    def __init__(self, rule: str, fix: str = "") -> None:
        super().__init__(rule)
        self.fix = fix


def read_leaves(name: str, value: Any, shape: Shape) -> list[Any]:
    """Return the leaves of a value, which must have exactly this shape.

    Args:
        name: the name of the value, for messages.
        value: arrays, numbers or lists, nested like the shape.
        shape: the shape.

    Returns:
        An array in C order for each leaf, which may share memory with `value`; None for tokens.

    Raises:
        MismatchError: the value does not have this shape.
    """
    try:
        flat = flatten_value(value, shape)
    except NestingError as error:
        count = len(error.shape.elements)
        raise MismatchError(
            f"{name}{error.path} must be a tuple of {count}, {error.shape}, got {error.got}"
        ) from None
    return [_read(f"{name}{path}", leaf, expected) for leaf, expected, path in flat]


def _read(name: str, leaf: Any, expected: ArrayShape | TokenShape) -> np.ndarray[Any, Any] | None:
    if isinstance(expected, TokenShape):
        if leaf is not None:
            raise MismatchError(f"{name} must be None for a token, got {describe(leaf)}")
        return None
    try:
        array = array_for(leaf, expected)
    except UnreadableArrayError as error:
        raise MismatchError(f"{name} must be {expected}, got {error.got}", error.fix) from None
    if array.dtype != expected.element_type.dtype or array.shape != expected.dimensions:
        raise MismatchError(f"{name} must be {expected}, got {describe_array(leaf, array)}")
    return np.asarray(array, order="C")
