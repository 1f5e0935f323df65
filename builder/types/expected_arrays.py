"""Convert a value to the array for a place whose shape is known: an argument, a result."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from builder.errors import ConstantError, OperandError, brief, statement_of
from builder.types.constant import list_array, scalar_array
from builder.types.foreign_arrays import UnreadableArrayError, describe, read_array
from builder.types.shape import ArrayShape

NUMBERS: Final = (bool, int, float, complex)
"""The types of Python numbers."""


def array_for(value: Any, shape: ArrayShape) -> np.ndarray[Any, Any]:
    """Return the array of a value that is passed for `shape`.

    Args:
        value: an array of any library; a Python number, if the rank is 0; nested lists or tuples of
            numbers. Numbers are converted to the element type, which must represent them as
            `constant` requires.
        shape: the expected shape.

    Returns:
        An array that may share the memory of `value`. It may have another dtype than `shape` if
        `value` is an array, and other sizes.

    Raises:
        UnreadableArrayError: the value is none of these; a number does not fit the element type.
    """
    element_type = shape.element_type
    if type(value) in NUMBERS:
        if shape.rank:
            raise UnreadableArrayError(f"the Python number {brief(value)}")
        try:
            return scalar_array(value, element_type)
        except ConstantError as error:
            raise _misfit(value, error) from None
    if isinstance(value, (list, tuple)):
        try:
            return list_array(value, element_type)
        except (ConstantError, OperandError) as error:
            raise _misfit(value, error) from None
    array = read_array(value)
    if array is None:
        raise UnreadableArrayError(describe(value))
    return array


def describe_array(value: Any, array: Any) -> str:
    """Describe the array that `array_for` returned for a value, for messages."""
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of sizes {array.shape}"
    return describe(array)


def _misfit(value: Any, error: ConstantError | OperandError) -> UnreadableArrayError:
    """Return the error for a number, or for lists, from the error of a constant."""
    number = ""
    if isinstance(error, ConstantError) and error.number:
        number = f"{error.number}: {error.reason}"
    if not isinstance(value, (list, tuple)):
        return UnreadableArrayError(number, error.fix)
    kind = type(value).__name__
    if number:
        return UnreadableArrayError(f"a {kind} with {number}", error.fix)
    return UnreadableArrayError(f"a {kind}: {statement_of(error, error.context)}", error.fix)
