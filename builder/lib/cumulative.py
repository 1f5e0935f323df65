"""Cumulative sums, products, extremes and log-sums-of-exponentials along a dimension.

`axis` may be negative, and then counts from the last dimension. `reverse` accumulates from the last
element to the first. An element of an `exclusive` result does not include the element at its own
position: the first one (with `reverse` the last one) is the result for no elements. The dimension
may be bounded: only the elements that exist at run time count. Types narrower than f32 are
accumulated in f32, and the results are rounded once.

Each function records one `reduce_window`, which XLA rewrites to a scan in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from builder.checking import flag
from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    array_argument,
    as_type,
    axis_argument,
    floating_argument,
    number_argument,
    ordered_argument,
    widened,
)
from builder.lib.constants import max_value, min_value
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.dynamic import get_dimension_size, set_dimension_size
from builder.ops.reduction import reduce_window
from builder.ops.reshaping import slice_in_dim
from builder.types.shape import UNBOUNDED


@library_function()
def cumsum(x: XlaOp, axis: int, reverse: bool = False, exclusive: bool = False) -> XlaOp:
    """Return the sums of all elements up to each one, along a dimension.

    Args:
        x: an array of numbers. Integers are added in their own type, and wrap.
        axis: the dimension.
        reverse: whether to accumulate from the last element.
        exclusive: whether to leave out the element at each position.

    Raises:
        ShapeInferenceError: the type is pred; the dimension is out of range or unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.cumsum(xb.XlaBuilder().parameter(xb.f32[4, 3]), axis=-1).shape
        f32[4,3]
    """
    kind = number_argument("cumsum", "x", x).element_type
    result = _accumulated("cumsum", widened(x), 0, ew.add, axis, reverse, exclusive)
    return as_type(result, kind)


@library_function()
def cumprod(x: XlaOp, axis: int, reverse: bool = False, exclusive: bool = False) -> XlaOp:
    """Return the products of all elements up to each one, along a dimension.

    Args:
        x: an array of numbers. Integers are multiplied in their own type, and wrap.
        axis: the dimension.
        reverse: whether to accumulate from the last element.
        exclusive: whether to leave out the element at each position.

    Raises:
        ShapeInferenceError: the type is pred; the dimension is out of range or unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.cumprod(xb.XlaBuilder().parameter(xb.s32[4, 3]), axis=0, exclusive=True).shape
        s32[4,3]
    """
    kind = number_argument("cumprod", "x", x).element_type
    result = _accumulated("cumprod", widened(x), 1, ew.mul, axis, reverse, exclusive)
    return as_type(result, kind)


@library_function(has_derivative=True)
def cummax(x: XlaOp, axis: int, reverse: bool = False, exclusive: bool = False) -> XlaOp:
    """Return the largest of all elements up to each one, along a dimension.

    The derivative is that of `jax.lax.cummax`: equal elements share it.

    Args:
        x: an array of real numbers or preds. The results are NaN from the first NaN on.
        axis: the dimension.
        reverse: whether to accumulate from the last element.
        exclusive: whether to leave out the element at each position. For no elements, the result
            is the `min_value` of the type.

    Raises:
        ShapeInferenceError: the type is complex; the dimension is out of range or unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.cummax(xb.XlaBuilder().parameter(xb.s8[4, 3]), axis=0).shape
        s8[4,3]
    """
    kind = ordered_argument("cummax", "x", x).element_type
    smallest = min_value(x.builder, kind)
    return _accumulated("cummax", x, smallest, ew.max, axis, reverse, exclusive)


@library_function(has_derivative=True)
def cummin(x: XlaOp, axis: int, reverse: bool = False, exclusive: bool = False) -> XlaOp:
    """Return the smallest of all elements up to each one, along a dimension.

    The derivative is that of `jax.lax.cummin`: equal elements share it.

    Args:
        x: an array of real numbers or preds. The results are NaN from the first NaN on.
        axis: the dimension.
        reverse: whether to accumulate from the last element.
        exclusive: whether to leave out the element at each position. For no elements, the result
            is the `max_value` of the type.

    Raises:
        ShapeInferenceError: the type is complex; the dimension is out of range or unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.cummin(xb.XlaBuilder().parameter(xb.s8[4, 3]), axis=0, reverse=True).shape
        s8[4,3]
    """
    kind = ordered_argument("cummin", "x", x).element_type
    largest = max_value(x.builder, kind)
    return _accumulated("cummin", x, largest, ew.min, axis, reverse, exclusive)


@library_function(has_derivative=True)
def cumlogsumexp(x: XlaOp, axis: int, reverse: bool = False, exclusive: bool = False) -> XlaOp:
    """Return log(sum(exp(...))) of all elements up to each one, without overflow.

    Where a result is infinite, the derivative is that of `cummax`.

    Args:
        x: an array of floating-point numbers.
        axis: the dimension.
        reverse: whether to accumulate from the last element.
        exclusive: whether to leave out the element at each position. For no elements, the result
            is -inf.

    Raises:
        ShapeInferenceError: the type is not a floating-point type; the dimension is out of range
            or unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.cumlogsumexp(xb.XlaBuilder().parameter(xb.f32[4, 3]), axis=-1).shape
        f32[4,3]
    """
    kind = floating_argument("cumlogsumexp", "x", x).element_type
    result = _accumulated("cumlogsumexp", widened(x), -math.inf, _log_add, axis, reverse, exclusive)
    return as_type(result, kind)


def _log_add(x: XlaOp, y: XlaOp) -> XlaOp:
    difference = x - y
    total = ew.max(x, y) + ew.log1p(ew.exp(-ew.abs(difference)))
    # The difference of equal infinities is NaN.
    return ew.select(ew.ne(difference, difference), x + y, total)


def _accumulated(
    op: str,
    x: XlaOp,
    init: Any,
    function: Callable[..., XlaOp],
    axis: int,
    reverse: bool,
    exclusive: bool,
) -> XlaOp:
    shape = array_argument(op, "x", x)
    number = axis_argument(op, "axis", axis, shape.rank)
    is_reverse, before = flag(op, "reverse", reverse), flag(op, "exclusive", exclusive)
    size = shape.dimensions[number]
    if size == UNBOUNDED:
        rule = f"dimension {number} of x must not be unbounded"
        fix = "give it a size, or a bound such as <=8"
        raise error_of(ShapeInferenceError, op, rule, fix, got=shape, dimension=number)
    if size == 0:
        return x  # a window has at least one element
    window = [size if n == number else 1 for n in range(shape.rank)]
    padding = [(0, 0)] * shape.rank
    added = size if before else size - 1
    padding[number] = (0, added) if is_reverse else (added, 0)
    result = reduce_window(x, init, function, window, None, padding)
    if before:
        # XLA rewrites windows that are padded by their size, but none of negative padding.
        result = slice_in_dim(result, int(is_reverse), size + int(is_reverse), 1, number)
        if shape.dynamic_dimensions[number]:
            result = set_dimension_size(result, get_dimension_size(x, number), number)
    return result
