"""Distances between numbers, counted in the numbers of their type that lie between them.

The floating-point numbers of a type, in their order, are numbered: neighbours are one apart,
whatever their size, and the two zeros are one number. Of integers and booleans the distance is
their difference. Complex numbers are as far apart as their parts that are farther apart.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType

__all__ = ["FAR", "distances", "in_units_of"]

Array = np.ndarray[Any, Any]

FAR: Final = float("inf")
"""The distance between a NaN and a number."""


def distances(a: Array, b: Array) -> Array:
    """The distance of each element of an array from that of another, as f64.

    A NaN is 0 from a NaN, whatever its bits, and infinitely far from everything else.

    Args:
        a, b: arrays of the same sizes and type, one of XLA's element types.

    Example:
        >>> import numpy as np
        >>> from lowering.interpreter.ulps import distances
        >>> distances(np.float32([1, 0, np.nan]), np.float32([1.0000001, -0.0, 1]))
        array([ 1.,  0., inf])
    """
    element_type = pt.from_dtype(a.dtype)
    if element_type.is_complex:
        return np.maximum(distances(a.real, b.real), distances(a.imag, b.imag))
    places_a, places_b = _places(a, element_type), _places(b, element_type)
    low, high = np.minimum(places_a, places_b), np.maximum(places_a, places_b)
    # Of 64 bits the difference may need one more than there are: as unsigned it is right.
    between = (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
    if not element_type.is_floating:
        return between
    nan_a, nan_b = _is_nan(a), _is_nan(b)
    return np.where(nan_a | nan_b, np.where(nan_a & nan_b, 0.0, FAR), between)


def _places(values: Array, element_type: PrimitiveType) -> Array:
    """For each number its place in the order of its type, as s64 (u64 of u64)."""
    if not element_type.is_floating:
        if element_type is pt.u64:
            return np.ascontiguousarray(values).reshape(values.shape)
        return values.astype(np.int64)
    bits = element_type.bits
    if element_type.name == "f8e8m0fnu":  # powers of two alone, without a sign
        return _bits_of(values)
    raw = _bits_of(values)
    sign = np.int64(1) << np.int64(bits - 1) if bits < 64 else np.int64(np.iinfo(np.int64).min)
    size = raw & ~sign
    return np.where(raw & sign != 0, -size, size)


def _bits_of(values: Array) -> Array:
    width = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}[values.dtype.itemsize]
    return np.ascontiguousarray(values).view(width).astype(np.int64).reshape(values.shape)


def _is_nan(values: Array) -> Array:
    found: Array = np.isnan(values.astype(np.float64))
    return found


def in_units_of(a: Array, b: Array, size: float) -> Array:
    """How far elements are apart, in steps between the numbers about `size`, as f64.

    It is `distances` for numbers that are larger than that; among smaller ones, where numbers lie
    closer together, it does not count those that a sum with terms of that size can't tell apart.
    """
    element_type = pt.from_dtype(a.dtype)
    if element_type.is_complex:
        return np.maximum(in_units_of(a.real, b.real, size), in_units_of(a.imag, b.imag, size))
    found = distances(a, b)
    if not element_type.is_floating or not np.isfinite(size) or size <= 0:
        return found
    step = _step(element_type, size)
    with np.errstate(all="ignore"):
        steps = np.abs(a.astype(np.float64) - b.astype(np.float64)) / step
    return np.where(np.isnan(steps), found, np.minimum(found, steps))


def _step(element_type: PrimitiveType, size: float) -> float:
    """The distance of the numbers of a type about `size`."""
    info = pt.float_info(element_type)
    _, exponent = math.frexp(size)
    return max(math.ldexp(float(info.eps), exponent - 1), float(info.smallest_subnormal))
