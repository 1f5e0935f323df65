"""Cholesky decomposition and triangular systems, one column or row at a time."""

from __future__ import annotations

from collections.abc import Sequence

import builder as xb
from builder import lib
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, shape_of
from builder.lib.linalg.matrices import (
    adjoint,
    as_batch,
    counted_along,
    matmul,
    triangle,
    working_type,
)
from lowering.portable.expanding import expansion


@expansion("cholesky")
def cholesky(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """Compute a column of the factor from those left of it.

    As on a CPU, all elements of a factor are NaN if the matrix is not positive definite.
    """
    (a,) = operands
    shape = shape_of(a)
    a = as_type(a, working_type(shape.element_type))
    is_lower = op.attributes["lower"]
    factor = _nan_without_factor(_factor(as_batch(a if is_lower else adjoint(a))))
    factor = xb.reshape(factor if is_lower else adjoint(factor), shape.dimensions)
    return as_type(factor, shape.element_type)


def _factor(a: XlaOp) -> XlaOp:
    """Return the lower factors of a batch [b, n, n]; only the lower triangle is read."""
    count, n, _ = shape_of(a).dimensions
    if count * n == 0:
        return a
    row = counted_along(xb.slice_in_dim(a, 0, 1, 1, 2), 1)

    def step(index: XlaOp, values: Sequence[XlaOp]) -> list[XlaOp]:
        (factor,) = values
        # Columns of `factor` from `index` on are those of `a`: only left columns are subtracted.
        left = xb.select(counted_along(factor, 2) < index, factor, 0)
        own = xb.dynamic_slice(left, [0, index, 0], [count, 1, n])
        column = xb.dynamic_slice(factor, [0, 0, index], [count, n, 1])
        column = column - matmul(left, adjoint(own))
        pivot = xb.dynamic_slice(column, [0, index, 0], [count, 1, 1])
        if shape_of(a).element_type.is_complex:
            pivot = as_type(xb.sqrt(xb.real(pivot)), shape_of(a).element_type)
        else:
            pivot = xb.sqrt(pivot)
        pivot = xb.broadcast_in_dim(pivot, (count, n, 1), [0, 1, 2])
        column = xb.select(xb.eq(row, index), pivot, column / pivot)
        column = xb.select(row < index, 0, column)
        return [xb.dynamic_update_slice(factor, column, [0, 0, index])]

    return lib.for_each_index(n, xb.s32, step, [triangle(a, upper=False)])[0]


def _nan_without_factor(factor: XlaOp) -> XlaOp:
    """Replace each factor of a batch with NaN unless its diagonal is positive."""
    size = xb.real(factor) if shape_of(factor).element_type.is_complex else factor
    is_valid = xb.or_(size > 0, xb.ne(counted_along(factor, 1), counted_along(factor, 2)))
    is_factor = xb.reduce(is_valid, True, xb.and_, [1, 2])
    everywhere = xb.broadcast_in_dim(is_factor, shape_of(factor).dimensions, [0])
    return xb.select(everywhere, factor, float("nan"))


@expansion("triangular_solve")
def triangular_solve(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """Substitute: compute a row of the solution from those above it, or below it."""
    a, b = operands
    shape, attributes = shape_of(b), op.attributes
    working = working_type(shape.element_type)
    a, b = as_batch(as_type(a, working)), as_batch(as_type(b, working))
    is_lower, transpose = attributes["lower"], attributes["transpose_a"].name
    # x op(a) = b is op(a)' x' = b'.
    is_left = attributes["left_side"]
    if transpose == "ADJOINT":
        a = lib.maybe_conjugate(a, True)
    if is_left == (transpose in ("TRANSPOSE", "ADJOINT")):
        a, is_lower = xb.transpose(a, [0, 2, 1]), not is_lower
    if not is_left:
        b = xb.transpose(b, [0, 2, 1])
    x = _substituted(a, b, is_lower, attributes["unit_diagonal"])
    x = x if is_left else xb.transpose(x, [0, 2, 1])
    return as_type(xb.reshape(x, shape.dimensions), shape.element_type)


def _substituted(a: XlaOp, b: XlaOp, is_lower: bool, has_unit_diagonal: bool) -> XlaOp:
    """Solve a x = b for batches a [c, n, n] and b [c, n, m]; one triangle of `a` is read."""
    count, n, width = shape_of(b).dimensions
    if count * n * width == 0:
        return b

    def step(number: XlaOp, values: Sequence[XlaOp]) -> list[XlaOp]:
        x, matrix = values
        index = number if is_lower else n - 1 - number
        row = xb.dynamic_slice(matrix, [0, index, 0], [count, 1, n])
        column = counted_along(row, 2)
        # Rows of x that are not solved yet have elements of b.
        factors = xb.select(column < index if is_lower else column > index, row, 0)
        own = xb.dynamic_slice(x, [0, index, 0], [count, 1, width])
        solved = xb.select(
            counted_along(x, 1) < index if is_lower else counted_along(x, 1) > index, x, 0
        )
        own = own - matmul(factors, solved)
        if not has_unit_diagonal:
            own = own / xb.dynamic_slice(row, [0, 0, index], [count, 1, 1])
        return [xb.dynamic_update_slice(x, own, [0, index, 0]), matrix]

    return lib.for_each_index(n, xb.s32, step, [b, a])[0]
