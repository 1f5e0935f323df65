"""Determinants, from LU decompositions."""

from __future__ import annotations

import math

from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, shape_of
from builder.lib.linalg.matrices import counted_along, prepared, square_argument
from builder.lib.linalg.triangular import lu_factors
from builder.lib.matrix import transpose_in_minor_dims
from builder.lib.reductions import prod, sum as total
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.reshaping import reshape, slice_in_dim


@library_function(has_derivative=True)
def det(a: XlaOp) -> XlaOp:
    """Return the determinants of square matrices; 1 for matrices of size 0.

    Determinants of large matrices overflow; `slogdet` does not.

    Args:
        a: square matrices [..., n, n] of floating-point or complex numbers.

    Returns:
        An array [...] of the type of `a`.

    Raises:
        ShapeInferenceError: `a` is not square; the type is not supported; a size is not fixed.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.det(xb.XlaBuilder().parameter(xb.f32[5, 3, 3])).shape
        f32[5]
    """
    square_argument("det", "a", a)
    diagonal, sign = _factored(a)
    return as_type(prod(diagonal, -1) * sign, shape_of(a).element_type)


@library_function("SLogDet")
def slogdet(a: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return the signs of determinants, and the logarithms of their absolute values.

    Args:
        a: square matrices [..., n, n] of floating-point or complex numbers.

    Returns:
        Two arrays [...]. The first, of the type of `a`, is the determinant divided by its absolute
        value, or 0 for singular matrices. The second, of the real type, is the logarithm of the
        absolute value, or -inf.

    Raises:
        ShapeInferenceError: `a` is not square; the type is not supported; a size is not fixed.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> sign, logarithm = lib.slogdet(xb.XlaBuilder().parameter(xb.c64[5, 3, 3]))
        >>> sign.shape, logarithm.shape
        (c64[5], f32[5])
    """
    kind = square_argument("slogdet", "a", a).element_type
    diagonal, sign = _factored(a)
    logarithm = total(ew.log(ew.abs(diagonal)), -1)
    return as_type(prod(ew.sign(diagonal), -1) * sign, kind), as_type(logarithm, kind.real_type)


@library_function("LogDet")
def logdet(a: XlaOp) -> XlaOp:
    """Return the logarithms of determinants; NaN for negative ones.

    Args:
        a: square matrices [..., n, n] of a floating-point type.

    Returns:
        An array [...] of the type of `a`; -inf for singular matrices.

    Raises:
        ShapeInferenceError: `a` is not square; the type is not floating-point; a size is not fixed.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.logdet(xb.XlaBuilder().parameter(xb.f64[3, 3])).shape
        f64[]
    """
    shape = square_argument("logdet", "a", a)
    if shape.element_type.is_complex:
        rule = f"a must be of a floating-point type, got {shape}"
        raise error_of(ShapeInferenceError, "logdet", rule, "use slogdet", shapes={"a": shape})
    sign, logarithm = slogdet(a)
    return ew.select(sign >= 0, logarithm, math.nan)


def _factored(a: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return the diagonals of U, and the signs of the permutations, in the working type."""
    factors, pivots = lu_factors(prepared(a))
    rank = shape_of(factors).rank
    is_exchanged = ew.ne(pivots, counted_along(pivots, rank - 2))
    return _diagonal(factors), prod(
        1 - 2 * as_type(is_exchanged, shape_of(factors).element_type), -1
    )


def _diagonal(a: XlaOp) -> XlaOp:
    """Return the diagonals [..., n] of square matrices [..., n, n]."""
    shape = shape_of(a)
    *batch, n = shape.dimensions[:-1]
    # Transposed matrices have the same diagonals. LAPACK returns matrices by columns, so this
    # transpose copies nothing.
    flat = reshape(transpose_in_minor_dims(a), (*batch, n * n))
    return slice_in_dim(flat, 0, n * n, n + 1, len(batch))
