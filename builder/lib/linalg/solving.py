"""Systems of linear equations, inverses, and least squares."""

from __future__ import annotations

from functools import cache

from builder.attributes import TransposeLike
from builder.checking import CONVERT, flag
from builder.errors import ShapeInferenceError, error_of
from builder.graph.decorators import computation
from builder.graph.subcomputations import ReusableFunction
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import array_argument, as_type, shape_of, static_argument
from builder.lib.linalg.matrices import (
    adjoint,
    as_batch,
    decomposed,
    identity,
    matmul,
    numbers_argument,
    prepared,
    rows_at,
    square_argument,
)
from builder.lib.linalg.orthogonal import qr
from builder.lib.linalg.triangular import lu_factors, permutation_of
from builder.lib.registry import library_function
from builder.ops.linalg import triangular_solve
from builder.ops.reshaping import reshape


@library_function()
def solve(a: XlaOp, b: XlaOp) -> XlaOp:
    """Solve the systems of linear equations ``a x = b`` by the LU decomposition of `a`.

    Args:
        a: square matrices [..., n, n] of floating-point or complex numbers. If a matrix is
            singular, its solutions are infinite or NaN.
        b: right sides, of the type and the batch sizes of `a`: matrices [..., n, k], or vectors
            [..., n] if it has one dimension less than `a`.

    Returns:
        The solutions, an array of the shape of `b`.

    Raises:
        ShapeInferenceError: `a` is not square; the sizes or types do not fit; a size is not fixed.
        OperandError: an argument is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.solve(b.parameter(xb.f32[5, 3, 3]), b.parameter(xb.f32[5, 3])).shape
        f32[5,3]
    """
    square_argument("solve", "a", a, "use lib.lstsq for least squares")
    right = _right_sides("solve", a, b)
    return _restored(_solved(prepared(a), right), b)


@library_function()
def inv(a: XlaOp) -> XlaOp:
    """Return the inverses of square matrices.

    `solve` is faster and more accurate than a product with an inverse.

    Args:
        a: square matrices [..., n, n] of floating-point or complex numbers. The inverse of a
            singular matrix is infinite or NaN.

    Raises:
        ShapeInferenceError: `a` is not square; the type is not supported; a size is not fixed.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.inv(xb.XlaBuilder().parameter(xb.c64[3, 3])).shape
        c64[3,3]
    """
    square_argument("inv", "a", a, "use lib.pinv for pseudo-inverses")
    matrix = prepared(a)
    ones = reshape(identity(as_batch(matrix)), shape_of(a).dimensions)
    return _restored(_solved(matrix, ones), a)


@library_function()
def cholesky_solve(factor: XlaOp, b: XlaOp, lower: bool = True) -> XlaOp:
    """Solve the systems of linear equations ``a x = b``, given the Cholesky factors of `a`.

    Args:
        factor: the results of `cholesky(a, lower)`, [..., n, n]. The other triangle is ignored.
        b: right sides, of the type and the batch sizes of `factor`: matrices [..., n, k], or
            vectors [..., n] if it has one dimension less than `factor`.
        lower: whether ``a = factor factor^H``. If not, ``a = factor^H factor``, and `factor` is an
            upper triangle.

    Returns:
        The solutions, an array of the shape of `b`.

    Raises:
        ShapeInferenceError: `factor` is not square; the sizes or types do not fit; a size is not
            fixed; `lower` is not a bool.
        OperandError: an argument is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> factor = xb.cholesky(b.parameter(xb.f64[3, 3]))
        >>> lib.cholesky_solve(factor, b.parameter(xb.f64[3, 2])).shape
        f64[3,2]
    """
    square_argument("cholesky_solve", "factor", factor)
    flag("cholesky_solve", "lower", lower)
    right = _right_sides("cholesky_solve", factor, b, "factor")
    matrix = prepared(factor)
    first: TransposeLike = "NO_TRANSPOSE" if lower else "ADJOINT"
    second: TransposeLike = "ADJOINT" if lower else "NO_TRANSPOSE"
    for transpose in (first, second):
        right = triangle_solved(matrix, right, lower=lower, transpose_a=transpose)
    return _restored(right, b)


@library_function()
def lstsq(a: XlaOp, b: XlaOp) -> XlaOp:
    """Return the least-squares solutions of ``a x = b``, by the QR decomposition.

    Args:
        a: matrices [..., m, n] of floating-point or complex numbers, of full rank: unlike in NumPy,
            the solutions for other matrices are infinite or NaN, or have large errors.
        b: right sides, of the type and the batch sizes of `a`: matrices [..., m, k], or vectors
            [..., m] if it has one dimension less than `a`.

    Returns:
        The solutions [..., n, k] or [..., n] with the smallest ``|a x - b|``. If m < n, there are
        several; the result is the one with the smallest ``|x|``.

    Raises:
        ShapeInferenceError: the sizes or types do not fit; a size is not fixed.
        OperandError: an argument is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.lstsq(b.parameter(xb.f32[5, 3]), b.parameter(xb.f32[5])).shape
        f32[3]
    """
    *batch, m, n = numbers_argument("lstsq", "a", a).dimensions
    right = as_batch(_right_sides("lstsq", a, b))
    matrix = as_batch(prepared(a))
    if m >= n:
        q, r = qr(matrix)
        x = triangle_solved(r, matmul(adjoint(q), right), lower=False)
    else:
        q, r = qr(adjoint(matrix))
        x = matmul(q, triangle_solved(r, right, lower=False, transpose_a="ADJOINT"))
    columns = shape_of(b).dimensions[len(batch) + 1 :]
    return as_type(reshape(x, (*batch, n, *columns)), shape_of(a).element_type)


def _right_sides(op: str, a: XlaOp, b: XlaOp, name: str = "a") -> XlaOp:
    """Check the right sides of a system; return them as matrices in the working type."""
    matrix, shape = shape_of(a), array_argument(op, "b", b)
    static_argument(op, "b", shape)
    shapes = {name: matrix, "b": shape}
    if shape.element_type is not matrix.element_type:
        rule = f"b must have the type of {name}, {matrix.element_type}"
        raise error_of(ShapeInferenceError, op, rule, CONVERT, got=shape, shapes=shapes)
    rows = matrix.dimensions[:-1]
    if shape.rank not in (matrix.rank - 1, matrix.rank) or shape.dimensions[: len(rows)] != rows:
        text = ",".join(map(str, rows))
        rule = f"b must be vectors [{text}] or matrices [{text},k]"
        raise error_of(ShapeInferenceError, op, rule, got=shape, shapes=shapes)
    wide = prepared(b)
    return wide if shape.rank == matrix.rank else reshape(wide, (*shape.dimensions, 1))


def _restored(x: XlaOp, b: XlaOp) -> XlaOp:
    shape = shape_of(b)
    return as_type(reshape(x, shape.dimensions), shape.element_type)


def _solved(a: XlaOp, b: XlaOp) -> XlaOp:
    """Solve systems of prepared matrices by their LU decompositions."""
    sizes = shape_of(b).dimensions
    if 0 in sizes:
        return b
    factors, pivots = lu_factors(a)
    order = permutation_of(pivots, sizes[-2])
    b = reshape(rows_at(as_batch(b), as_batch(order, 1)), sizes)
    b = triangle_solved(factors, b, lower=True, unit_diagonal=True)
    return triangle_solved(factors, b, lower=False)


def triangle_solved(
    a: XlaOp,
    b: XlaOp,
    *,
    lower: bool,
    unit_diagonal: bool = False,
    transpose_a: TransposeLike = "NO_TRANSPOSE",
) -> XlaOp:
    """Record `triangular_solve` of prepared arrays as a composite op that CPUs run with BLAS."""
    attributes = {"lower": lower, "unit_diagonal": unit_diagonal, "transpose_a": transpose_a}
    algorithm = _triangular_solve(lower, unit_diagonal, transpose_a)
    return decomposed("triangular_solve", algorithm, a, b, **attributes)[0]


@cache
def _triangular_solve(
    lower: bool, unit_diagonal: bool, transpose_a: TransposeLike
) -> ReusableFunction:
    @computation
    def solved(a: XlaOp, b: XlaOp) -> XlaOp:
        return triangular_solve(a, b, True, lower, unit_diagonal, transpose_a)

    return solved
