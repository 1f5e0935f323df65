"""Reductions of an array along dimensions.

`axis` is one dimension, several, or None for all; negative numbers count from the last dimension.
With `keepdims`, the reduced dimensions remain, of size 1. The dimensions may be bounded or
unbounded: only the elements that exist at run time count. Types narrower than f32 are reduced in
f32, and the result is rounded once.

XLA: Any, ArgMax and ArgMinMax in arithmetic.h of the client library.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from builder.checking import CONVERT, flag
from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    Axes,
    array_argument,
    as_type,
    axis_argument,
    finite_number,
    floating_argument,
    number_argument,
    ordered_argument,
    reduced_axes,
    shape_of,
    widened,
)
from builder.lib.constants import max_value, min_value
from builder.lib.dynamic import indices_of
from builder.lib.registry import library_function, noting_calls
from builder.ops import elementwise as ew
from builder.ops.control_flow import get_tuple_element
from builder.ops.dynamic import dynamic_reshape, get_dimension_size
from builder.ops.reduction import reduce
from builder.ops.reshaping import reshape
from builder.types.primitive_type import (
    PrimitiveTypeLike,
    bf16,
    element_type_argument,
    f16,
    pred,
    s32,
)
from builder.types.shape import UNBOUNDED, ArrayShape


@library_function()
def sum(x: XlaOp, axis: Axes = None, keepdims: bool = False) -> XlaOp:
    """Return the sums along dimensions; 0 for no elements.

    Args:
        x: an array of numbers. Integers are added in their own type, and wrap.
        axis: a dimension, several, or None for all.
        keepdims: whether the reduced dimensions remain, of size 1.

    Raises:
        ShapeInferenceError: the type is pred; a dimension is out of range or named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 3])
        >>> lib.sum(x, axis=-1).shape, lib.sum(x, axis=0, keepdims=True).shape
        (f32[4], f32[1,3])
    """
    shape = number_argument("sum", "x", x)
    return as_type(_reduced("sum", widened(x), 0, ew.add, axis, keepdims), shape.element_type)


@library_function()
def prod(x: XlaOp, axis: Axes = None, keepdims: bool = False) -> XlaOp:
    """Return the products along dimensions; 1 for no elements.

    Args:
        x: an array of numbers. Integers are multiplied in their own type, and wrap.
        axis: a dimension, several, or None for all.
        keepdims: whether the reduced dimensions remain, of size 1.

    Raises:
        ShapeInferenceError: the type is pred; a dimension is out of range or named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.prod(xb.XlaBuilder().parameter(xb.s32[4, 3]), axis=1).shape
        s32[4]
    """
    shape = number_argument("prod", "x", x)
    return as_type(_reduced("prod", widened(x), 1, ew.mul, axis, keepdims), shape.element_type)


@library_function()
def mean(x: XlaOp, axis: Axes = None, keepdims: bool = False) -> XlaOp:
    """Return the means along dimensions; NaN for no elements.

    Args:
        x: an array of floating-point or complex numbers.
        axis: a dimension, several, or None for all.
        keepdims: whether the reduced dimensions remain, of size 1.

    Raises:
        ShapeInferenceError: the type is pred or an integer type; a dimension is out of range or
            named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.mean(xb.XlaBuilder().parameter(xb.bf16[4, 3]), axis=[0, 1]).shape
        bf16[]
    """
    shape = _fractions("mean", x)
    axes = reduced_axes("mean", axis, keepdims, shape.rank)
    wide = widened(x)
    result = _kept(x, _mean(wide, axes), axes, keepdims)
    return as_type(result, shape.element_type)


@library_function()
def var(x: XlaOp, axis: Axes = None, keepdims: bool = False, correction: int | float = 0) -> XlaOp:
    """Return the variances along dimensions.

    The mean is computed first, then the mean square of the differences from it. Unlike the
    difference of two sums, this does not cancel digits.

    Args:
        x: an array of floating-point or complex numbers.
        axis: a dimension, several, or None for all.
        keepdims: whether the reduced dimensions remain, of size 1.
        correction: a number that is subtracted from the number of elements before the division; 1
            for the unbiased estimate. If the divisor is not positive, the result is NaN, or
            infinity if elements differ.

    Returns:
        Real numbers, also for complex ones.

    Raises:
        OperandError: `correction` is not a finite number.
        ShapeInferenceError: the type is pred or an integer type; a dimension is out of range or
            named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.var(xb.XlaBuilder().parameter(xb.f32[4, 3]), axis=0, correction=1).shape
        f32[3]
    """
    shape = _fractions("var", x)
    axes = reduced_axes("var", axis, keepdims, shape.rank)
    result = _kept(x, _variance("var", x, axes, correction), axes, keepdims)
    return as_type(result, shape.element_type.real_type)


@library_function()
def std(x: XlaOp, axis: Axes = None, keepdims: bool = False, correction: int | float = 0) -> XlaOp:
    """Return the standard deviations along dimensions: the square roots of `var`.

    Args:
        x: an array of floating-point or complex numbers.
        axis: a dimension, several, or None for all.
        keepdims: whether the reduced dimensions remain, of size 1.
        correction: see `var`.

    Raises:
        OperandError: `correction` is not a finite number.
        ShapeInferenceError: the type is pred or an integer type; a dimension is out of range or
            named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.std(xb.XlaBuilder().parameter(xb.c64[4, 3]), axis=0).shape
        f32[3]
    """
    shape = _fractions("std", x)
    axes = reduced_axes("std", axis, keepdims, shape.rank)
    deviation = ew.sqrt(_variance("std", x, axes, correction))
    return as_type(_kept(x, deviation, axes, keepdims), shape.element_type.real_type)


@library_function()
def max(x: XlaOp, axis: Axes = None, keepdims: bool = False) -> XlaOp:
    """Return the largest elements along dimensions; NaN if an element is NaN.

    Args:
        x: an array of real numbers or preds.
        axis: a dimension, several, or None for all.
        keepdims: whether the reduced dimensions remain, of size 1.

    Returns:
        For no elements the `min_value` of the type.

    Raises:
        ShapeInferenceError: the type is complex; a dimension is out of range or named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.max(xb.XlaBuilder().parameter(xb.f32[4, 3]), axis=-1, keepdims=True).shape
        f32[4,1]
    """
    shape = ordered_argument("max", "x", x)
    smallest = min_value(x.builder, shape.element_type)
    return _reduced("max", x, smallest, ew.max, axis, keepdims)


@library_function()
def min(x: XlaOp, axis: Axes = None, keepdims: bool = False) -> XlaOp:
    """Return the smallest elements along dimensions; NaN if an element is NaN.

    Args:
        x: an array of real numbers or preds.
        axis: a dimension, several, or None for all.
        keepdims: whether the reduced dimensions remain, of size 1.

    Returns:
        For no elements the `max_value` of the type.

    Raises:
        ShapeInferenceError: the type is complex; a dimension is out of range or named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.min(xb.XlaBuilder().parameter(xb.s8[4, 3]), axis=0).shape
        s8[3]
    """
    shape = ordered_argument("min", "x", x)
    largest = max_value(x.builder, shape.element_type)
    return _reduced("min", x, largest, ew.min, axis, keepdims)


@library_function("Any")
def any(x: XlaOp, axis: Axes = None, keepdims: bool = False) -> XlaOp:
    """Return whether an element is true, along dimensions; false for no elements.

    Args:
        x: an array of preds.
        axis: a dimension, several, or None for all.
        keepdims: whether the reduced dimensions remain, of size 1.

    Raises:
        ShapeInferenceError: the type is not pred; a dimension is out of range or named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.any(xb.XlaBuilder().parameter(xb.f32[4, 3]) > 0.0).shape
        pred[]
    """
    _preds("any", x)
    return _reduced("any", x, False, ew.or_, axis, keepdims)


@library_function()
def all(x: XlaOp, axis: Axes = None, keepdims: bool = False) -> XlaOp:
    """Return whether all elements are true, along dimensions; true for no elements.

    Args:
        x: an array of preds.
        axis: a dimension, several, or None for all.
        keepdims: whether the reduced dimensions remain, of size 1.

    Raises:
        ShapeInferenceError: the type is not pred; a dimension is out of range or named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.all(xb.XlaBuilder().parameter(xb.f32[4, 3]) > 0.0, axis=0).shape
        pred[3]
    """
    _preds("all", x)
    return _reduced("all", x, True, ew.and_, axis, keepdims)


@library_function(has_derivative=True)
def logsumexp(x: XlaOp, axis: Axes = None, keepdims: bool = False) -> XlaOp:
    """Return log(sum(exp(x))) along dimensions, without overflow; -inf for no elements.

    Where the result is infinite, the derivative is that of `max`.

    Args:
        x: an array of floating-point numbers.
        axis: a dimension, several, or None for all.
        keepdims: whether the reduced dimensions remain, of size 1.

    Raises:
        ShapeInferenceError: the type is not a floating-point type; a dimension is out of range or
            named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.logsumexp(xb.XlaBuilder().parameter(xb.f32[4, 3]), axis=-1).shape
        f32[4]
    """
    shape = floating_argument("logsumexp", "x", x)
    axes = reduced_axes("logsumexp", axis, keepdims, shape.rank)
    wide = widened(x)
    largest = widened_largest(x, axes)
    # An infinite shift would give inf - inf.
    shift = ew.select(ew.is_finite(largest), largest, 0.0)
    exponentials = ew.exp(ew.sub(wide, shift, others(shape.rank, axes)))
    result = ew.log(reduce(exponentials, 0.0, ew.add, axes)) + shift
    return as_type(_kept(x, result, axes, keepdims), shape.element_type)


@library_function("ArgMax")
def arg_max(x: XlaOp, element_type: PrimitiveTypeLike, axis: int, keepdims: bool = False) -> XlaOp:
    """Return the index of the largest element along a dimension; the first among equal ones.

    Args:
        x: an array of real numbers or preds. NaNs are not counted, unlike in NumPy.
        element_type: the integer type of the result.
        axis: a dimension; it may be negative.
        keepdims: whether the dimension remains, of size 1.

    Returns:
        Indices; 0 if there are no elements or all are NaN.

    Raises:
        ShapeInferenceError: the type is complex; `element_type` is not an integer type; the
            dimension is out of range, or its size unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.arg_max(xb.XlaBuilder().parameter(xb.f32[4, 3]), xb.s32, -1).shape
        s32[4]
    """
    return _arg("arg_max", x, element_type, axis, keepdims, ew.gt, min_value)


@library_function("ArgMinMax")
def arg_min(x: XlaOp, element_type: PrimitiveTypeLike, axis: int, keepdims: bool = False) -> XlaOp:
    """Return the index of the smallest element along a dimension; the first among equal ones.

    Args:
        x: an array of real numbers or preds. NaNs are not counted, unlike in NumPy.
        element_type: the integer type of the result.
        axis: a dimension; it may be negative.
        keepdims: whether the dimension remains, of size 1.

    Returns:
        Indices; 0 if there are no elements or all are NaN.

    Raises:
        ShapeInferenceError: the type is complex; `element_type` is not an integer type; the
            dimension is out of range, or its size unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.arg_min(xb.XlaBuilder().parameter(xb.f32[4, 3]), xb.u8, 0, keepdims=True).shape
        u8[1,3]
    """
    return _arg("arg_min", x, element_type, axis, keepdims, ew.lt, max_value)


def others(rank: int, axes: tuple[int, ...]) -> list[int]:
    """Return the dimensions of an array that are not in `axes`."""
    return [number for number in range(rank) if number not in axes]


def _fractions(op: str, x: XlaOp) -> ArrayShape:
    shape = array_argument(op, "x", x)
    if not (shape.element_type.is_floating or shape.element_type.is_complex):
        rule = "x must be of floating-point or complex type"
        fix = f"{CONVERT}, for instance to xb.f32; nothing is promoted silently"
        raise error_of(ShapeInferenceError, op, rule, fix, got=shape)
    return shape


def _preds(op: str, x: XlaOp) -> None:
    shape = array_argument(op, "x", x)
    if shape.element_type is not pred:
        fix = "compare first, for instance x != 0"
        rule = "x must be of type pred"
        raise error_of(ShapeInferenceError, op, rule, fix, got=shape)


def _reduced(
    op: str,
    x: XlaOp,
    init: Any,
    function: Callable[..., XlaOp],
    axis: Axes,
    keepdims: bool,
) -> XlaOp:
    axes = reduced_axes(op, axis, keepdims, shape_of(x).rank)
    return _kept(x, reduce(x, init, function, axes), axes, keepdims)


def _kept(x: XlaOp, reduced: XlaOp, axes: tuple[int, ...], keepdims: bool) -> XlaOp:
    """Return `reduced`, the reduction of `x` along `axes`, with or without dimensions of size 1."""
    return with_ones(x, reduced, axes) if keepdims else reduced


def with_ones(x: XlaOp, reduced: XlaOp, axes: tuple[int, ...]) -> XlaOp:
    """Return `reduced`, the reduction of `x` along `axes`, with these dimensions of size 1."""
    shape = shape_of(x)
    sizes = [1 if n in axes else size for n, size in enumerate(shape.dimensions)]
    if UNBOUNDED not in sizes:
        return reshape(reduced, sizes)
    at_run_time = [
        get_dimension_size(x, n) if size == UNBOUNDED else size for n, size in enumerate(sizes)
    ]
    are_dynamic = [
        is_dynamic and n not in axes for n, is_dynamic in enumerate(shape.dynamic_dimensions)
    ]
    return dynamic_reshape(reduced, at_run_time, sizes, are_dynamic)


def _count(x: XlaOp, axes: tuple[int, ...]) -> XlaOp | float:
    """Return the number of elements along `axes`; for dynamic sizes a scalar of x's real type."""
    shape = shape_of(x)
    static = math.prod(shape.dimensions[n] for n in axes if not shape.dynamic_dimensions[n])
    dynamic = [n for n in axes if shape.dynamic_dimensions[n]]
    if not dynamic:
        return float(static)
    sizes = [as_type(get_dimension_size(x, n), shape.element_type.real_type) for n in dynamic]
    return math.prod(sizes[1:], start=sizes[0]) * float(static)


def _mean(x: XlaOp, axes: tuple[int, ...]) -> XlaOp:
    total = reduce(x, 0, ew.add, axes)
    count = _count(x, axes)
    if isinstance(count, XlaOp):
        count = as_type(count, total.shape.element_type)
    return total / count


def _variance(op: str, x: XlaOp, axes: tuple[int, ...], correction: Any) -> XlaOp:
    """Return the variances in x's real type, or in f32 if it is narrower."""
    subtracted = finite_number(op, "correction", correction)
    wide = widened(x)
    difference = ew.sub(wide, _mean(wide, axes), others(shape_of(x).rank, axes))
    if difference.shape.element_type.is_complex:
        squares = ew.square(ew.real(difference)) + ew.square(ew.imag(difference))
    else:
        squares = ew.square(difference)
    count = _count(squares, axes)
    if isinstance(count, XlaOp):
        remaining: XlaOp | float = ew.max(count - subtracted, 0.0)
    else:
        remaining = builtins.max(count - subtracted, 0.0)
    return reduce(squares, 0.0, ew.add, axes) / remaining


def _arg(
    op: str,
    x: XlaOp,
    element_type: PrimitiveTypeLike,
    axis: int,
    keepdims: bool,
    better: Callable[..., XlaOp],
    worst: Callable[..., XlaOp],
) -> XlaOp:
    shape = ordered_argument(op, "x", x)
    kind = element_type_argument(op, "element_type", element_type)
    if not kind.is_integral:
        rule = "element_type must be an integer type"
        raise error_of(ShapeInferenceError, op, rule, "write xb.s32", got=kind)
    number = axis_argument(op, "axis", axis, shape.rank)
    flag(op, "keepdims", keepdims)
    index_type = s32 if shape.dimensions[number] <= s32.max else kind
    worst_value = worst(x.builder, shape.element_type)
    indices = indices_of(x, index_type, number)

    def best_of(value: XlaOp, index: XlaOp, other: XlaOp, other_index: XlaOp) -> tuple[XlaOp, ...]:
        # In any order of the reduction, the lowest index wins among equal values. NaNs lose, at the
        # latest to the initial value.
        is_other = better(other, value)
        if value.shape.element_type.is_floating:
            is_other = ew.or_(is_other, ew.ne(value, value))
        is_tie = ew.eq(other, value)
        best_index = ew.select(is_other, other_index, index)
        lower = ew.min(index, other_index)
        return ew.select(is_other, other, value), ew.select(is_tie, lower, best_index)

    best = reduce([x, indices], [worst_value, 0], best_of, [number])
    result = _kept(x, get_tuple_element(best, 1), (number,), keepdims)
    return as_type(result, kind)


@partial(noting_calls, "largest_number")
def largest_number(x: XlaOp, dimensions: Sequence[int]) -> XlaOp:
    """Return the maximum along dimensions; the result may ignore NaNs.

    It is used as a shift before an exponential, whose sum is NaN in any case if an element is NaN.
    The attribute lets a backend use a faster reduction that ignores NaNs. The derivative is 0,
    because results do not depend on the shift.
    """
    with x.builder.frontend_attributes({"xlabuilder.nans": "ignored"}):
        return reduce(x, -math.inf, ew.max, dimensions)


def widened_largest(x: XlaOp, dimensions: Sequence[int]) -> XlaOp:
    """Return `largest_number` of `widened(x)`.

    For f16 and bf16 the maximum is computed before the conversion, which does not change it: half
    as many bytes are read, and a backend need not store the converted array. Narrower types may
    have no infinity for the initial value.
    """
    if shape_of(x).element_type in (f16, bf16):
        return widened(largest_number(x, dimensions))
    return largest_number(widened(x), dimensions)
