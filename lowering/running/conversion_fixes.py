"""Suggest code that converts a rejected array to the type and sizes of its parameter."""

from __future__ import annotations

import math
from typing import Any, Final

import jax
import numpy as np

from builder.types import primitive_type as pt
from lowering.pjrt.devices import Target

_AS_NUMPY: Final = "numpy.asarray(array)"


def conversion_fix(array: Any, target: Target, passed: Any) -> str:
    """Return the fix for an array of a wrong dtype or wrong sizes.

    The fix contains code that converts the array. If several conversions of the sizes are possible,
    the fix names only the expected sizes.

    Args:
        array: the array, of NumPy or jax.
        target: what it must fit.
        passed: the value that the user passed, from which the array was read.
    """
    if isinstance(passed, (list, tuple)):
        return f"pass nested lists of the parameter's sizes: {target.dimensions}"
    dtype = pt.dtype_text(target.dtype)
    try:
        pt.from_dtype(array.dtype)
    except ValueError:
        return (
            f"pass an array of numbers: numpy.asarray(values, {dtype}), "
            f"of sizes {target.dimensions}"
        )
    verb, code = _rearrangement(array.shape, target.dimensions)
    if code is None:
        return f"pass an array of the parameter's sizes: {target.dimensions}"
    if array.dtype != target.dtype:
        verb = f"convert and {verb}" if verb else "convert"
        code += f".astype({dtype})"
    # Arrays of other libraries have other methods.
    name = "array" if isinstance(passed, (np.ndarray, np.generic, jax.Array)) else _AS_NUMPY
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
