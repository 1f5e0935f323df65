"""The LU decomposition, and determinants."""

from __future__ import annotations

import math
from typing import Any, Final

from builder.attributes import GatherDimensionNumbers, ScatterDimensionNumbers
from builder.errors import ShapeInferenceError, error_of
from builder.graph.decorators import computation
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, shape_of
from builder.lib.linalg.matrices import (
    as_batch,
    counted_along,
    decomposed,
    magnitude,
    matmul,
    matrices_argument,
    prepared,
    restored,
    rows_at,
    square_argument,
)
from builder.lib.matrix import transpose_in_minor_dims
from builder.lib.reductions import arg_max, prod, sum, sum as total
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.control_flow import while_
from builder.ops.indexing import dynamic_slice, dynamic_update_slice, gather, scatter
from builder.ops.linalg import triangular_solve
from builder.ops.reshaping import broadcast, broadcast_in_dim, concatenate, reshape, slice_in_dim
from builder.types.primitive_type import s32
from builder.types.shape import intern_array

_PANEL: Final = 128
"""The number of columns that are eliminated before the columns right of them are updated."""


@library_function("LuDecomposition")
def lu(a: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Decompose matrices as P a = L U, with partial pivoting.

    The function records the composite op `xlabuilder.lu`, which CPUs run with LAPACK and NVIDIA's
    GPUs with cuSOLVER.

    Args:
        a: matrices [..., m, n] of any type. Types other than f32, f64, c64 and c128 are computed in
            f32, integers of more than 16 bits in f64, and the factors are converted back.

    Returns:
        Three arrays. The first has the shape of `a`: U is on and above the diagonal, L below it.
        The diagonal of L, which consists of ones, is not stored. The second, s32[..., min(m, n)],
        has the exchanges: step i exchanges rows i and ``pivots[i]``, counted from 0. The third,
        s32[..., m], is the permutation: row i of L U is row ``permutation[i]`` of `a`. A bounded
        size of `a` is bounded in the first array; the other arrays have the bound as a fixed size.

    Raises:
        ShapeInferenceError: `a` has fewer than two dimensions, or an unbounded size.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> factors, pivots, permutation = lib.lu(xb.XlaBuilder().parameter(xb.f32[5, 4, 3]))
        >>> factors.shape, pivots.shape, permutation.shape
        (f32[5,4,3], s32[5,3], s32[5,4])
    """
    rank = matrices_argument("lu", "a", a).rank
    full = prepared(a, (rank - 2, rank - 1))
    factors, pivots = lu_factors(full)
    return restored(factors, a), pivots, permutation_of(pivots, shape_of(full).dimensions[-2])


def lu_factors(a: XlaOp) -> list[XlaOp]:
    """Return the factors and the pivots of prepared matrices."""
    shape = shape_of(a)
    if 0 in shape.dimensions:
        sizes = (*shape.dimensions[:-2], min(shape.dimensions[-2:]))
        return [a, broadcast(a.builder.constant(0, s32), sizes)]
    return decomposed("lu", _lu, a)


@computation
def _lu(a: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Eliminate panels of columns; after each, update the columns right of it."""
    sizes = shape_of(a).dimensions
    batch = as_batch(a)
    _, m, n = shape_of(batch).dimensions
    count = min(m, n)
    all_pivots = []
    for start in range(0, count, _PANEL):
        end = min(start + _PANEL, count)
        below = slice_in_dim(batch, start, m, 1, 1)
        panel, pivots = _eliminated(slice_in_dim(below, start, end, 1, 2), end - start)
        all_pivots.append(pivots + start)
        order = permutation_of(pivots, m - start)
        left = slice_in_dim(below, 0, start, 1, 2)
        right = slice_in_dim(below, end, n, 1, 2)
        parts = [rows_at(left, order), panel, _updated(panel, rows_at(right, order))]
        above = slice_in_dim(batch, 0, start, 1, 1)
        batch = concatenate([above, concatenate(parts, 2)], 1)
    pivots = concatenate(all_pivots, 1)
    return reshape(batch, sizes), reshape(pivots, (*sizes[:-2], count))


def _eliminated(panel: XlaOp, count: int) -> tuple[XlaOp, XlaOp]:
    """Return the factors of a batch of panels of `count` columns, and their pivots."""
    b = panel.builder
    pivots = broadcast(b.constant(0, s32), (shape_of(panel).dimensions[0], count))
    state = while_(lambda s: s[0] < count, _eliminate_column, (b.constant(0, s32), panel, pivots))
    return state[1], state[2]


def _eliminate_column(state: Any) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Exchange a row for one with a larger pivot, and subtract it from the rows below."""
    step, panel, pivots = state
    count, m, n = shape_of(panel).dimensions
    row, column = counted_along(panel, 1), counted_along(panel, 2)
    candidates = dynamic_slice(panel, [0, 0, step], [count, m, 1])
    size = ew.select(counted_along(candidates, 1) < step, -1.0, magnitude(candidates))
    # NaNs are not counted: if all candidates are NaN, the largest is in a row above.
    pivot = ew.max(arg_max(size, s32, 1), step)
    own = dynamic_slice(panel, [0, step, 0], [count, 1, n])
    is_pivot = ew.eq(row, pivot, broadcast_dimensions=[0, 2])
    chosen = sum(ew.select(is_pivot, panel, 0), 1, keepdims=True)
    panel = ew.select(is_pivot, broadcast_in_dim(own, (count, m, n), [0, 1, 2]), panel)
    panel = dynamic_update_slice(panel, chosen, [0, step, 0])
    divisor = dynamic_slice(chosen, [0, 0, step], [count, 1, 1])
    # If the pivot is 0, all elements below it are 0, and remain.
    divisor = ew.select(ew.eq(divisor, 0), 1, divisor)
    factor = dynamic_slice(panel, [0, 0, step], [count, m, 1]) / divisor
    reduced = ew.select(column > step, panel - factor * chosen, panel)
    factor = broadcast_in_dim(factor, (count, m, n), [0, 1, 2])
    reduced = ew.select(ew.eq(column, step), factor, reduced)
    panel = ew.select(row > step, reduced, panel)
    pivots = dynamic_update_slice(pivots, pivot, [0, step])
    return step + 1, panel, pivots


def _updated(panel: XlaOp, right: XlaOp) -> XlaOp:
    """Return the columns right of an eliminated panel after the elimination."""
    _, m, width = shape_of(panel).dimensions
    top = slice_in_dim(panel, 0, width, 1, 1)
    upper = triangular_solve(
        top, slice_in_dim(right, 0, width, 1, 1), True, True, True, "NO_TRANSPOSE"
    )
    lower = slice_in_dim(right, width, m, 1, 1)
    lower = lower - matmul(slice_in_dim(panel, width, m, 1, 1), upper)
    return concatenate([upper, lower], 1)


_GATHERED: Final = GatherDimensionNumbers((), (0, 1), (0, 1), 1)
_SCATTERED: Final = ScatterDimensionNumbers((), (0, 1), (0, 1), 1)


@computation
def _newer(_: XlaOp, new: XlaOp) -> XlaOp:
    return new


def permutation_of(pivots: XlaOp, size: int) -> XlaOp:
    """Return the permutations s32[..., size] that exchange each row for its pivot, in order."""
    b, sizes = pivots.builder, shape_of(pivots).dimensions
    batch = as_batch(pivots, 1)
    count, exchanges = shape_of(batch).dimensions
    rows = b.iota(intern_array(s32, (count, size)), 1)
    if not (exchanges and count):
        return reshape(rows, (*sizes[:-1], size))

    def exchange(state: Any) -> tuple[XlaOp, XlaOp, XlaOp]:
        step, order, pivots = state
        pivot = dynamic_slice(pivots, [0, step], [count, 1])
        own = dynamic_slice(order, [0, step], [count, 1])
        if count == 1:
            position: list[XlaOp | int] = [0, reshape(pivot, ())]
            chosen = dynamic_slice(order, position, [1, 1])
            order = dynamic_update_slice(order, own, position)
        else:
            places = concatenate([counted_along(pivot, 0), pivot], 1)
            chosen = reshape(gather(order, places, _GATHERED, [1, 1]), (count, 1))
            own = reshape(own, (count,))
            order = scatter(order, places, own, _newer, _SCATTERED, False, True)
        return step + 1, dynamic_update_slice(order, chosen, [0, step]), pivots

    start = b.constant(0, s32)
    order = while_(lambda state: state[0] < exchanges, exchange, (start, rows, batch))[1]
    return reshape(order, (*sizes[:-1], size))


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
        rule = "a must be of a floating-point type"
        raise error_of(
            ShapeInferenceError, "logdet", rule, "use slogdet", got=shape, shapes={"a": shape}
        )
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
