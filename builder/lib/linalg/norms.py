"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from builder.checking import CONVERT, flag
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    Axes,
    array_argument,
    as_type,
    axes_argument,
    shape_of,
    static_argument,
    widened,
)
from builder.lib.linalg.jacobi import squared_magnitude
from builder.lib.linalg.singular_values import svdvals
from builder.lib.reductions import max, min, sum
from builder.lib.registry import library_function
from builder.lib.shaping import expand_dims
from builder.ops import elementwise as ew
from builder.ops.reshaping import transpose

Order = float | Literal["fro", "nuc"] | None

_OF_MATRICES: Final = (None, "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


@library_function()
def norm(x: XlaOp, ord: Order = None, axis: Axes = None, keepdims: bool = False) -> XlaOp:
    """Return norms of vectors or matrices, as NumPy defines them.

    Powers of elements may overflow or underflow.

    One axis selects vectors, two axes select matrices (rows, columns); the other dimensions are a
    batch. Without `axis`, an array of one or two dimensions is a single vector or matrix.

    Args:
        x: an array of floating-point or complex type. Types narrower than f32 are computed in f32,
            and the result is rounded once.
        ord: the order of the norm.

            - None: the root of the sum of squares; without `axis` that of all elements.
            - For vectors a number p: the p-th root of the sum of absolute values to the power p;
              inf and -inf for the largest and the smallest absolute value, 0 for the number of
              elements that are not 0.
            - For matrices: "fro" as None; "nuc" for the sum of singular values; 2 and -2 for the
              largest and the smallest singular value; 1 and -1 for the largest and the smallest sum
              of the absolute values of a column; inf and -inf for the largest and the smallest sum
              of a row.
        axis: one dimension or two.
        keepdims: whether the dimensions remain, of size 1.

    Returns:
        An array of the real type. Norms of no elements are 0; the smallest of no values is inf.

    Raises:
        ShapeInferenceError: the type is not of floating point or complex; a dimension is out of
            range or named twice; a vector or matrix is needed, and there are other dimensions;
            `keepdims` is not a bool; a size is dynamic where singular values are needed.
        OperandError: there is no norm of order `ord`; `x` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[7, 5, 3])
        >>> lib.norm(x).shape, lib.norm(x, 1, axis=-1).shape, lib.norm(x, "nuc", (1, 2)).shape
        (f32[], f32[7,5], f32[7])
    """
    shape = array_argument("norm", "x", x)
    if not (shape.element_type.is_floating or shape.element_type.is_complex):
        rule = "x must be of floating-point or complex type"
        raise error_of(ShapeInferenceError, "norm", rule, CONVERT, got=shape, shapes={"x": shape})
    flag("norm", "keepdims", keepdims)
    if ord is not None and (isinstance(ord, bool) or not isinstance(ord, (int, float, str))):
        rule = "ord must be None, a number, 'fro' or 'nuc'"
        raise error_of(OperandError, "norm", rule, got=brief(ord))
    axes = axes_argument("norm", axis, shape.rank)
    wide = widened(x)
    if axis is None and ord is None:
        result = ew.sqrt(sum(squared_magnitude(wide), axes, keepdims))
    elif len(axes) == 1:
        result = _of_vectors(wide, ord, axes[0], keepdims)
    elif len(axes) == 2:
        result = _of_matrices(wide, ord, axes, keepdims)
    else:
        rule = "axis must be one dimension for vectors or two for matrices"
        fix = "pass axis=-1 for vectors, axis=(-2, -1) for matrices"
        raise error_of(ShapeInferenceError, "norm", rule, fix, got=len(axes), shapes={"x": shape})
    return as_type(result, shape.element_type.real_type)


def _of_vectors(x: XlaOp, order: Order, axis: int, keepdims: bool) -> XlaOp:
    if order is None or order == 2:
        return ew.sqrt(sum(squared_magnitude(x), axis, keepdims))
    if isinstance(order, str) or math.isnan(order):
        rule = "ord must be None or a number for vectors"
        raise error_of(OperandError, "norm", rule, got=brief(order))
    size = ew.abs(x)
    if math.isinf(order):
        return _largest(size, axis, keepdims) if order > 0 else min(size, axis, keepdims)
    if order == 0:
        count = as_type(ew.ne(size, 0), shape_of(size).element_type)
        return sum(count, axis, keepdims)
    if order == 1:
        return sum(size, axis, keepdims)
    return ew.pow(sum(ew.pow(size, float(order)), axis, keepdims), 1 / order)


def _of_matrices(x: XlaOp, order: Order, axes: Sequence[int], keepdims: bool) -> XlaOp:
    if order not in _OF_MATRICES:
        rule = f"ord must be one of {_OF_MATRICES} for matrices"
        raise error_of(OperandError, "norm", rule, got=brief(order))
    if order is None or order == "fro":
        return ew.sqrt(sum(squared_magnitude(x), axes, keepdims))
    if order == "nuc" or abs(order) == 2:
        static_argument("norm", "x", shape_of(x))
        rest = [number for number in range(shape_of(x).rank) if number not in axes]
        values = svdvals(transpose(x, [*rest, *axes]))
        last = len(rest)
        if order == "nuc":
            result = sum(values, last)
        else:
            result = _largest(values, last, False) if order > 0 else min(values, last)
        return expand_dims(result, sorted(axes)) if keepdims else result
    sums = sum(ew.abs(x), axes[0] if abs(order) == 1 else axes[1], keepdims=True)
    return _largest(sums, axes, keepdims) if order > 0 else min(sums, axes, keepdims)


def _largest(x: XlaOp, axes: Axes, keepdims: bool) -> XlaOp:
    """Return the largest of numbers that are not negative; 0 if there are none."""
    return ew.max(max(x, axes, keepdims), 0.0)
