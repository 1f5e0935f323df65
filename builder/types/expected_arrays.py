"""Convert values to arrays for places of known shapes; flatten values nested like a tuple shape."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from builder.errors import ConstantError, OperandError, brief, statement_of
from builder.types import primitive_type as pt
from builder.types.constant import list_array, scalar_array
from builder.types.foreign_arrays import UnreadableArrayError, describe, read_array
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape

_AS_NUMPY: Final = "numpy.asarray(array)"


def conversion_fix(array: Any, shape: ArrayShape, passed: Any) -> str:
    """Return the fix for an array of a wrong dtype or wrong sizes.

    The fix contains code that converts the array. If several conversions of the sizes are possible,
    the fix names only the expected sizes.

    Args:
        array: the array, of NumPy or jax.
        shape: the shape of the parameter.
        passed: the value that the user passed, from which the array was read.
    """
    if isinstance(passed, (list, tuple)):
        return f"pass nested lists of the parameter's sizes: {shape.dimensions}"
    expected = shape.element_type.dtype
    dtype = pt.dtype_text(expected)
    try:
        pt.from_dtype(array.dtype)
    except ValueError:
        # An .npz file has bytes in place of the types of ml_dtypes. The dtypes of jax's random keys
        # have no kind.
        is_bytes = getattr(array.dtype, "kind", "") == "V"
        if is_bytes and array.dtype.itemsize == expected.itemsize:
            return f"read its bytes as the parameter's type: array.view({dtype})"
        return (
            f"pass an array of numbers: numpy.asarray(values, {dtype}), of sizes {shape.dimensions}"
        )
    verb, code = _rearrangement(array.shape, shape.dimensions)
    if code is None:
        return f"pass an array of the parameter's sizes: {shape.dimensions}"
    if array.dtype != expected:
        verb = f"convert and {verb}" if verb else "convert"
        code += f".astype({dtype})"
    # Arrays of some libraries have other methods.
    name = "array" if hasattr(passed, "astype") else _AS_NUMPY
    return f"{verb} it: {name}{code}"


def _rearrangement(sizes: tuple[int, ...], expected: tuple[int, ...]) -> tuple[str, str | None]:
    """Return the verb and the code that change an array's sizes: "reshape", ".reshape((2, 3))".

    The code is None if several conversions are possible.
    """
    if sizes == expected:
        return "", ""
    if sorted(sizes) == sorted(expected):
        # A reshape would be accepted too, but most likely move elements to the wrong places.
        remaining = list(enumerate(sizes))
        order: list[int] = []
        for size in expected:
            dimension = next(pair for pair in remaining if pair[1] == size)
            remaining.remove(dimension)
            order.append(dimension[0])
        return "transpose", f".transpose({tuple(order)})"
    left, right = _prefix_products(sizes), _prefix_products(expected)
    if 0 not in sizes and max(left) == max(right) and (left <= right or right <= left):
        # Adjacent dimensions are merged, or one is split: no element moves.
        return "reshape", f".reshape({expected})"
    return "", None


def _prefix_products(sizes: tuple[int, ...]) -> set[int]:
    return {math.prod(sizes[:end]) for end in range(len(sizes) + 1)}


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
