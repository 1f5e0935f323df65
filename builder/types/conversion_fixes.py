"""Suggest code that converts a rejected array to the type and sizes of its parameter."""

from __future__ import annotations

import math
from typing import Any, Final

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape

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
