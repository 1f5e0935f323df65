"""Arguments and portable Jacobi methods that eigenvalues and singular values share.

In the portable Jacobi methods, each matrix of a batch [b, n, m] has an even number n of rows. A
round rotates n / 2 pairs: row i of the first half with row i of the second half. Then `exchanged`
rearranges the rows. A sweep of n - 1 rounds rotates each pair once and brings each row back to its
place. It is the order of a round-robin tournament, in which all but the first player move around a
circle.

Brent, Luk: The solution of singular-value and symmetric eigenvalue problems on multiprocessor
arrays. SIAM J. Sci. Stat. Comput. 6 (1985).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, shape_of
from builder.lib.linalg.matrices import adjoint, matmul, matrices_argument, prepared, working_type
from builder.lib.math import maybe_conjugate
from builder.lib.reductions import any, max, sum
from builder.lib.shaping import eye, where
from builder.ops import elementwise as ew
from builder.ops.control_flow import while_
from builder.ops.reshaping import broadcast, concatenate, pad_in_dim, reshape, slice_in_dim
from builder.types.primitive_type import f32, s32
from builder.types.shape import ArrayShape


def floating_matrices(op: str, name: str, value: XlaOp) -> XlaOp:
    """Return an argument, matrices of floating-point or complex type, in the working type.

    Bounded sizes become their bounds, and elements beyond a matrix's size become 0.
    """
    shape = matrices_argument(op, name, value)
    element_type = shape.element_type
    if not (element_type.is_floating or element_type.is_complex):
        rule = f"{name} must be of floating-point or complex type"
        fix = f"convert with xb.convert_element_type({name}, xb.{working_type(element_type)})"
        raise error_of(ShapeInferenceError, op, rule, fix, got=shape, shapes={name: shape})
    return prepared(value, (shape.rank - 2, shape.rank - 1))


def finite_only(matrices: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Replace matrices that are not finite by zeros; also return which are finite, [..., 1, 1].

    Libraries may loop forever on NaNs.
    """
    rank = shape_of(matrices).rank
    # The product of 0 and a number is 0 only if the number is finite.
    zero = sum(matrices * 0.0, (rank - 2, rank - 1), keepdims=True)
    is_finite = ew.is_finite(as_real(zero))
    return where(is_finite, matrices, 0), is_finite


def nan_unless(is_finite: XlaOp, result: XlaOp) -> XlaOp:
    """Return NaNs instead of results for matrices that are not finite.

    Args:
        is_finite: [..., 1, 1].
        result: matrices, or a vector for each matrix.
    """
    sizes = shape_of(is_finite).dimensions
    if shape_of(result).rank < len(sizes):
        is_finite = reshape(is_finite, sizes[:-1])
    return where(is_finite, result, np.nan)


def as_real(x: XlaOp) -> XlaOp:
    """Return the real parts of real or complex numbers."""
    return ew.real(x) if shape_of(x).element_type.is_complex else x


def values_shape(matrices: XlaOp) -> ArrayShape:
    """Return the shape of the eigenvalues or singular values of matrices, of the real type."""
    shape = shape_of(matrices)
    *batch, m, n = shape.dimensions
    return shape.element_type.real_type[(*batch, min(m, n))]


MAX_SWEEPS: Final = 30
"""Matrices of 500 rows take about 10 sweeps; strongly graded ones take up to twice as many."""


def scaled(batch: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Divide matrices by powers of two, so that squares of the largest elements are representable.

    Returns:
        The quotients; and the divisors, real [b, 1, 1].
    """
    element_type = shape_of(batch).element_type
    parts = [ew.real(batch), ew.imag(batch)] if element_type.is_complex else [batch]
    largest = max(concatenate([ew.abs(part) for part in parts], 2), (1, 2), keepdims=True)
    # Rounding to no bits of the mantissa; half the number, because the largest would overflow.
    bits = 8 if shape_of(largest).element_type is f32 else 11
    power = ew.reduce_precision(largest * 0.5, bits, 0)
    power = ew.select(power > 0.0, power, 1)
    return batch / as_type(power, element_type), power


def even_rows(batch: XlaOp) -> XlaOp:
    """Append a row of zeros to matrices with an odd number of rows."""
    return pad_in_dim(batch, 0, 1, 0, shape_of(batch).dimensions[1] % 2)


def rotation(a: XlaOp, b: XlaOp, d: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return c and s of the rotation J = [[c, s], [-conj(s), c]] that makes J^H G J diagonal.

    Args:
        a, b, d: the elements of G = [[a, b], [conj(b), d]]; a and d are real. Where b is 0, the
            rotation is the identity.

    Returns:
        The cosine and the sine, in the type of b.
    """
    size = ew.abs(b)
    is_zero = ew.eq(size, 0)
    tau = (d - a) / ew.select(is_zero, 1, size + size)
    tangent = 1.0 / (ew.abs(tau) + ew.sqrt(tau * tau + 1.0))
    tangent = ew.select(is_zero, 0, ew.select(tau >= 0.0, tangent, -tangent))
    cosine = 1.0 / ew.sqrt(tangent * tangent + 1.0)
    element_type = shape_of(b).element_type
    phase = b / as_type(ew.select(is_zero, 1, size), element_type)
    return as_type(cosine, element_type), as_type(tangent * cosine, element_type) * phase


def rotated(x: XlaOp, c: XlaOp, s: XlaOp, dimension: int) -> XlaOp:
    """Apply rotations to pairs of rows or columns: x J for columns, J^T x for rows.

    Args:
        x: a batch of matrices.
        c, s: the rotations; see `rotation`. They have one element for each pair along `dimension`.
        dimension: 1 for rows, 2 for columns.
    """
    first, second = halves(x, dimension)
    return concatenate(
        [c * first - maybe_conjugate(s, True) * second, s * first + c * second], dimension
    )


def halves(x: XlaOp, dimension: int) -> tuple[XlaOp, XlaOp]:
    """Return the first and the second half of a batch of matrices along a dimension."""
    n = shape_of(x).dimensions[dimension]
    return slice_in_dim(x, 0, n // 2, 1, dimension), slice_in_dim(x, n // 2, n, 1, dimension)


def exchanged(x: XlaOp, dimension: int) -> XlaOp:
    """Rearrange rows or columns for the next round."""
    n = shape_of(x).dimensions[dimension]
    k = n // 2
    starts = ((0, 1), (k, k + 1), (1, k - 1), (k + 1, n), (k - 1, k)) if k > 1 else ((0, n),)
    return concatenate([slice_in_dim(x, *bounds, 1, dimension) for bounds in starts], dimension)


def swept(
    one_round: Callable[..., tuple[XlaOp, ...]],
    is_done: Callable[..., XlaOp],
    state: tuple[XlaOp, ...],
) -> tuple[XlaOp, ...]:
    """Repeat sweeps until all matrices are done, or the number of sweeps is `MAX_SWEEPS`.

    Args:
        one_round: returns the arrays after one round of rotations.
        is_done: returns for each matrix whether it needs no further sweep, before each sweep.
        state: the arrays, the first one with two rows for each pair.
    """
    b = state[0].builder
    rounds = shape_of(state[0]).dimensions[1] - 1

    def sweep(outer: Any) -> tuple[XlaOp, ...]:
        count, _, *arrays = outer
        inner = while_(
            lambda s: s[0] < rounds,
            lambda s: (s[0] + 1, *one_round(*tuple(s)[1:])),
            (b.constant(0, s32), *arrays),
        )
        after = tuple(inner)[1:]
        return count + 1, ew.not_(is_done(*after)), *after

    unfinished = ew.not_(is_done(*state))
    last = while_(
        lambda s: ew.and_(s[0] < MAX_SWEEPS, any(s[1])),
        sweep,
        (b.constant(0, s32), unfinished, *state),
    )
    return tuple(last)[2:]


def orthonormal(rows: XlaOp) -> XlaOp:
    """Return orthonormal rows, up to rounding, from rows that are approximately orthonormal.

    One step of Newton's method removes the rounding errors of the rotations.
    """
    product = matmul(rows, adjoint(rows))
    return rows + matmul(identities(rows) - product, rows) * 0.5


def squared_magnitude(x: XlaOp) -> XlaOp:
    """Return the squares of absolute values, in the real type."""
    if not shape_of(x).element_type.is_complex:
        return x * x
    return ew.square(ew.real(x)) + ew.square(ew.imag(x))


def identities(batch: XlaOp) -> XlaOp:
    """Return an identity matrix for each matrix of a batch, with as many rows."""
    count, n, _ = shape_of(batch).dimensions
    return broadcast(eye(batch.builder, n, element_type=shape_of(batch).element_type), (count,))
