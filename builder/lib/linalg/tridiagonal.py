"""Tridiagonal matrices, given by their diagonals.

XLA: tridiagonal.h of the client library. A diagonal has the shape [..., 1, n], where n is the
number of rows. The first element of the lower diagonal and the last one of the upper diagonal are
outside of the matrix, and are ignored.
"""

from __future__ import annotations

from typing import Any

from builder.checking import CONVERT
from builder.errors import ShapeInferenceError, error_of
from builder.graph.decorators import computation
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, shape_of
from builder.lib.linalg.matrices import (
    as_batch,
    counted_along,
    decomposed,
    numbers_argument,
    prepared,
)
from builder.lib.matrix import transpose_in_minor_dims
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.control_flow import scan
from builder.ops.reshaping import broadcast, pad_in_dim, reshape, slice_in_dim
from builder.types.shape import ArrayShape


@library_function("TridiagonalSolver")
def tridiagonal_solver(
    lower_diagonal: XlaOp, main_diagonal: XlaOp, upper_diagonal: XlaOp, rhs: XlaOp
) -> XlaOp:
    """Solve systems of linear equations with tridiagonal matrices.

    The function records the composite op `xlabuilder.tridiagonal_solve`. CPUs run it with LAPACK,
    which exchanges rows for accuracy. The portable algorithm is Thomas's. It does not exchange
    rows, so matrices must be diagonally dominant or positive definite. XLA's function has a
    parameter for the algorithm, with Thomas's as the only choice.

    Args:
        lower_diagonal, main_diagonal, upper_diagonal: the diagonals, [..., 1, n].
        rhs: right sides [..., k, n], each in a row.

    Returns:
        The solutions, an array of the shape of `rhs`; infinite or NaN for singular matrices.

    Raises:
        ShapeInferenceError: the types differ, or are not floating-point or complex; the sizes do
            not fit; a size is not fixed.
        OperandError: an argument is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lower, main, upper = (b.parameter(xb.f32[5, 1, 8]) for _ in range(3))
        >>> lib.tridiagonal_solver(lower, main, upper, b.parameter(xb.f32[5, 2, 8])).shape
        f32[5,2,8]
    """
    diagonals = lower_diagonal, main_diagonal, upper_diagonal
    shape = _checked("tridiagonal_solver", diagonals, rhs, -1)
    if 0 in shape.dimensions:
        return rhs
    lower, main, upper = (prepared(_without_row(diagonal)) for diagonal in diagonals)
    right = transpose_in_minor_dims(prepared(rhs))
    solved = decomposed("tridiagonal_solve", _solved, lower, main, upper, right)[0]
    return as_type(transpose_in_minor_dims(solved), shape.element_type)


@library_function("TridiagonalMatMul")
def tridiagonal_mat_mul(
    upper_diagonal: XlaOp, main_diagonal: XlaOp, lower_diagonal: XlaOp, rhs: XlaOp
) -> XlaOp:
    """Multiply tridiagonal matrices by matrices.

    Args:
        upper_diagonal, main_diagonal, lower_diagonal: the diagonals, [..., 1, n].
        rhs: matrices [..., n, k].

    Returns:
        The products, an array of the shape of `rhs`.

    Raises:
        ShapeInferenceError: the types differ, or are not floating-point or complex; the sizes do
            not fit; a size is not fixed.
        OperandError: an argument is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> upper, main, lower = (b.parameter(xb.f32[1, 8]) for _ in range(3))
        >>> lib.tridiagonal_mat_mul(upper, main, lower, b.parameter(xb.f32[8, 2])).shape
        f32[8,2]
    """
    diagonals = upper_diagonal, main_diagonal, lower_diagonal
    shape = _checked("tridiagonal_mat_mul", diagonals, rhs, -2)
    rows, n = shape.rank - 2, shape.dimensions[-2]
    if n == 0:
        return rhs
    upper, main, lower = map(transpose_in_minor_dims, diagonals)
    above = slice_in_dim(upper, 0, n - 1, 1, rows) * slice_in_dim(rhs, 1, n, 1, rows)
    below = slice_in_dim(lower, 1, n, 1, rows) * slice_in_dim(rhs, 0, n - 1, 1, rows)
    return main * rhs + pad_in_dim(above, 0, rows, 0, 1) + pad_in_dim(below, 0, rows, 1, 0)


def _checked(op: str, diagonals: tuple[XlaOp, ...], rhs: XlaOp, dimension: int) -> ArrayShape:
    """Check the shapes; the right sides have n elements along `dimension`. Return their shape."""
    shape = numbers_argument(op, "rhs", rhs)
    want = (*shape.dimensions[:-2], 1, shape.dimensions[dimension])
    for name, diagonal in zip(_DIAGONALS[op], diagonals, strict=True):
        given = numbers_argument(op, name, diagonal)
        shapes = {name: given, "rhs": shape}
        if given.element_type is not shape.element_type:
            rule = f"{name} must have the type of rhs, {shape.element_type}"
            raise error_of(ShapeInferenceError, op, rule, CONVERT, got=given, shapes=shapes)
        if given.dimensions != want:
            rule = f"{name} must have the sizes {list(want)} for these right sides"
            raise error_of(ShapeInferenceError, op, rule, got=given, shapes=shapes)
    return shape


_DIAGONALS = {
    "tridiagonal_solver": ("lower_diagonal", "main_diagonal", "upper_diagonal"),
    "tridiagonal_mat_mul": ("upper_diagonal", "main_diagonal", "lower_diagonal"),
}


def _without_row(diagonal: XlaOp) -> XlaOp:
    *batch, _, n = shape_of(diagonal).dimensions
    return reshape(diagonal, (*batch, n))


@computation
def _solved(lower: XlaOp, main: XlaOp, upper: XlaOp, right: XlaOp) -> XlaOp:
    """Eliminate the lower diagonal from the first row on, then the upper one from the last."""
    sizes = shape_of(right).dimensions
    batch = as_batch(right)
    count, n, width = shape_of(batch).dimensions
    lower, main, upper = (_columns(diagonal, n) for diagonal in (lower, main, upper))
    row = counted_along(lower, 1)
    lower, upper = ew.select(ew.eq(row, 0), 0, lower), ew.select(ew.eq(row, n - 1), 0, upper)
    zero = right.builder.constant(0, shape_of(right).element_type)
    none, nothing = broadcast(zero, (count, 1)), broadcast(zero, (count, width))

    def forward(low: XlaOp, own: XlaOp, up: XlaOp, b: XlaOp, last: XlaOp, before: XlaOp) -> Any:
        pivot = own - low * last
        eliminated, rest = up / pivot, (b - low * before) / pivot
        return eliminated, rest, eliminated, rest

    def backward(factor: XlaOp, b: XlaOp, after: XlaOp) -> Any:
        x = b - factor * after
        return x, x

    factors, rests, *_ = scan([lower, main, upper, batch], [none, nothing], forward, 1)
    x = scan([factors, rests], [nothing], backward, 1, is_reverse=True)[0]
    return reshape(x, sizes)


def _columns(diagonal: XlaOp, n: int) -> XlaOp:
    """Return diagonals as a batch of matrices of one column."""
    batch = as_batch(diagonal, 1)
    return reshape(batch, (shape_of(batch).dimensions[0], n, 1))
