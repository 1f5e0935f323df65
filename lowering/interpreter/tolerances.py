"""Distances between numbers in units in the last place (ulps), and those that ops may have.

The floating-point numbers of a type are numbered in order: neighbors have distance 1 regardless of
their magnitude, and the two zeros have the same number. The distance of integers and booleans is
their difference. The smaller part of a computed complex number may have few correct digits, so
`complex_distances` compares complex numbers as a whole.

A tolerance is the error in ulps that a comparison permits. The schema of an op has the op's
tolerance (`builder.schema.definition`).
`lowering.legalize.elementwise` lists the ops that a platform computes less accurately. The
tolerance of a computation is the largest sum of tolerances along a path to its root. The tolerance
of an op that applies computations is the largest of their tolerances, times the number of
applications for one element.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS, LargestTerm
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape
from lowering.legalize.elementwise import INACCURATE

Array = np.ndarray[Any, Any]

FAR: Final = float("inf")
"""The distance between a NaN and a number."""


def distances(a: Array, b: Array) -> Array:
    """Return the distance in ulps of each pair of elements, as f64.

    The distance of complex numbers is the larger distance of their parts. Two NaNs have distance 0;
    a NaN and a number have an infinite distance.

    Args:
        a, b: arrays of the same shape and element type.

    Example:
        >>> import numpy as np
        >>> from lowering.interpreter.tolerances import distances
        >>> distances(np.float32([1, 0, np.nan]), np.float32([1.0000001, -0.0, 1]))
        array([ 1.,  0., inf])
    """
    element_type = pt.from_dtype(a.dtype)
    if element_type.is_complex:
        return np.maximum(distances(a.real, b.real), distances(a.imag, b.imag))
    ranks_a, ranks_b = _ranks(a, element_type), _ranks(b, element_type)
    low, high = np.minimum(ranks_a, ranks_b), np.maximum(ranks_a, ranks_b)
    # The difference of 64-bit integers may overflow as signed, but not as unsigned.
    with np.errstate(over="ignore"):  # scalars warn, arrays do not
        between = (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
    if not element_type.is_floating:
        return between
    nan_a, nan_b = _is_nan(a), _is_nan(b)
    return np.where(nan_a | nan_b, np.where(nan_a & nan_b, 0.0, FAR), between)


def _ranks(values: Array, element_type: PrimitiveType) -> Array:
    """Return the position of each number in the order of its type, as s64 (u64 for u64)."""
    if not element_type.is_floating:
        if element_type is pt.u64:
            return np.ascontiguousarray(values).reshape(values.shape)
        return values.astype(np.int64)
    bits = element_type.bits
    if element_type.name == "f8e8m0fnu":  # powers of two, without a sign
        return _bits_of(values)
    raw = _bits_of(values)
    sign = np.int64(1) << np.int64(bits - 1) if bits < 64 else np.int64(np.iinfo(np.int64).min)
    magnitude = raw & ~sign
    return np.where(raw & sign != 0, -magnitude, magnitude)


def _bits_of(values: Array) -> Array:
    width = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}[values.dtype.itemsize]
    return np.ascontiguousarray(values).view(width).astype(np.int64).reshape(values.shape)


def _is_nan(values: Array) -> Array:
    mask: Array = np.isnan(values.astype(np.float64))
    return mask


def is_near(a: Array, b: Array, ulps: float) -> bool:
    """Return whether arrays are equal, up to a number of ulps of the largest element of `b`.

    All NaNs are equal. Integers and preds must be equal.
    """
    element_type = pt.from_dtype(b.dtype)
    if not (element_type.is_floating or element_type.is_complex):
        return np.array_equal(a, b)
    wide: type = np.complex128 if element_type.is_complex else np.float64
    with np.errstate(all="ignore"):
        x: Array = a.astype(wide)
        y: Array = b.astype(wide)
        equal = (x == y) | (np.isnan(x) & np.isnan(y))
        finite = np.abs(y[np.isfinite(y)])
        unit = finite.max(initial=0.0) * float(pt.float_info(element_type.real_type).eps)
        return bool((equal | (np.abs(x - y) <= ulps * unit)).all())


def in_units_of(a: Array, b: Array, size: float) -> Array:
    """Return the distance of each pair of elements in ulps of the number `size`, as f64.

    The result is at most that of `distances`. It is smaller for numbers below `size`: a sum with
    terms of magnitude `size` can't distinguish such numbers from their neighbors.
    """
    element_type = pt.from_dtype(a.dtype)
    if element_type.is_complex:
        return complex_distances(a, b, size)
    ulps = distances(a, b)
    if not element_type.is_floating or not np.isfinite(size) or size <= 0:
        return ulps
    step = _step(element_type, size)
    with np.errstate(all="ignore"):
        steps = np.abs(a.astype(np.float64) - b.astype(np.float64)) / step
    return np.where(np.isnan(steps), ulps, np.minimum(ulps, steps))


def _step(element_type: PrimitiveType, size: float) -> float:
    """Return the distance between neighboring numbers of magnitude `size`."""
    info = pt.float_info(element_type)
    _, exponent = math.frexp(size)
    return max(math.ldexp(float(info.eps), exponent - 1), float(info.smallest_subnormal))


def complex_distances(a: Array, b: Array, size: float = 0.0) -> Array:
    """Return the magnitude of the difference of each pair of complex numbers, as f64.

    The unit is the ulp of the largest part of both numbers, or of `size` if that is larger. An
    infinite part counts as the number that would follow the largest finite number. The distance
    between a number with a NaN and a finite number is infinite. Two numbers that are not finite
    have distance 0 if one has a NaN, because implementations differ in the products of infinities.

    Args:
        a, b: complex arrays of the same shape and element type.
        size: a finite number.

    Example:
        >>> import numpy as np
        >>> from lowering.interpreter.tolerances import complex_distances
        >>> complex_distances(np.complex64([1 + 1e-8j]), np.complex64([1 + 2e-8j])).round(2)
        array([0.08])
    """
    info = pt.float_info(pt.from_dtype(a.dtype).real_type)
    parts = [x.astype(np.float64) for x in (a.real, a.imag, b.real, b.imag)]
    with np.errstate(all="ignore"):
        larger = np.maximum.reduce([*map(np.abs, parts), np.full(a.shape, size)])
        _, exponents = np.frexp(np.minimum(larger, float(info.max)))
        steps = np.ldexp(float(info.eps), exponents - 1)
        steps = np.maximum(steps, float(info.smallest_subnormal))
        after_largest = 2.0 / float(info.eps)
        real_a, imag_a, real_b, imag_b = (
            np.where(np.isinf(x), np.copysign(after_largest, x), x / steps) for x in parts
        )
        ulps: Array = np.hypot(real_a - real_b, imag_a - imag_b)
    with_nan = np.where(np.isfinite(a) | np.isfinite(b), FAR, 0.0)
    return np.where(np.isnan(a) | np.isnan(b), with_nan, ulps)


MIN_OF_SUM: Final = 8.0
"""The smallest tolerance of a sum, in ulps: products may be rounded twice, or not at all."""


def may_flush(op: XlaOp) -> bool:
    """Return whether devices may flush subnormal operands to zero."""
    return SCHEMAS[op.opcode].tolerance.flushes


def is_sum(op: XlaOp) -> bool:
    """Return whether an op's result is a sum, compared in ulps of the sum's largest term."""
    tolerance = SCHEMAS[op.opcode].tolerance
    return tolerance.terms is not None or tolerance.applications is not None


def of_op(op: XlaOp, platform: str) -> float:
    """Return the permitted error in ulps of floating-point and complex results of an op.

    The compared results are assumed to be computed from equal operands.

    Args:
        op: the op.
        platform: the platform whose results are compared.
    """
    tolerance = SCHEMAS[op.opcode].tolerance
    if tolerance.applications is not None:
        called = op.called_computations
        inner = max((_of_computation(each, platform) for each in called), default=0.0)
        return inner * max(1, tolerance.applications(op)) if inner else 0.0
    ulps = tolerance.ulps
    if tolerance.complex_ulps is not None and _is_complex(op):
        ulps = tolerance.complex_ulps
    if tolerance.terms is not None:
        return max(MIN_OF_SUM, ulps * tolerance.terms(op))
    if isinstance(op.shape, ArrayShape) and platform in INACCURATE:
        ulps = max(ulps, INACCURATE[platform].get((op.opcode, op.shape.element_type), 0.0))
    return ulps


def _is_complex(op: XlaOp) -> bool:
    shapes = (op.shape, *(operand.shape for operand in op.operands))
    return any(isinstance(s, ArrayShape) and s.element_type.is_complex for s in shapes)


def _of_computation(computation: XlaComputation, platform: str) -> float:
    """Return the largest sum of tolerances along a path to the root."""
    sums: list[float] = computation._planned(accumulated, computation, platform)
    return sums[computation.root.id]


def accumulated(computation: XlaComputation, platform: str) -> list[float]:
    """Return, for each op, the largest sum of tolerances along a path that ends at the op."""
    sums: list[float] = []
    for op in computation.ops:
        before = max((sums[operand.id] for operand in op.operands), default=0.0)
        sums.append(before + of_op(op, platform))
    return sums


def largest(values: list[Array]) -> float:
    """Return the largest magnitude of the finite numbers in some arrays."""
    maximum = 0.0
    for value in values:
        if value.dtype.kind == "b" or not value.size:
            continue
        sizes = np.abs(value.astype(np.complex128 if value.dtype.kind == "c" else np.float64))
        finite = sizes[np.isfinite(sizes)]
        if finite.size:
            maximum = max(maximum, float(finite.max()))
    return maximum


def largest_term(op: XlaOp, operands: list[Array], result: Array) -> float:
    """Return an upper bound on the magnitudes of the terms that an op adds up."""
    match SCHEMAS[op.opcode].tolerance.largest_term:
        case LargestTerm.RESULT:
            return largest([result])
        case LargestTerm.PRODUCT:
            product = math.prod(largest([operand]) for operand in operands[:2])
            return max(largest([result]), product)
        case _:
            return largest([result, *operands])


def smallest_normal(element_type: PrimitiveType) -> float:
    """Return the smallest positive normal number of a float type, or of a complex type's parts."""
    info = pt.float_info(element_type.real_type)
    return float(info.smallest_normal)
