"""Cholesky decomposition, triangular systems and Fourier transforms.

A decomposition or a triangular system takes one column or row at a time. A Fourier transform of any
length is matrix products of real numbers. A length is split into its prime factors: a transform of
length p * q is one of length q, a product with roots of unity, and one of length p. A prime length
is a product with a matrix; a large one is a convolution (Bluestein's algorithm), which has
transforms of a power of 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

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


_LARGE_PRIME: Final = 64
"""Larger primes are transformed by a convolution."""


class _Complex(NamedTuple):
    """The real and imaginary parts of complex numbers.

    Backends without Fourier transforms often have no matrix products of complex numbers either.
    """

    real: XlaOp
    imag: XlaOp


@expansion("fft")
def fft(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """Transform along each dimension, from the last to the first.

    For a real result, the order is from the first to the last.
    """
    (operand,) = operands
    shape, result = shape_of(operand), shape_of(op)
    lengths, kind = op.attributes["fft_length"], op.attributes["fft_type"].name
    if 0 in (*shape.dimensions, *result.dimensions):
        return xb.broadcast(operand.builder.constant(0, result.element_type), result.dimensions)
    if shape.element_type.is_complex:
        value = _Complex(xb.real(operand), xb.imag(operand))
    else:
        value = _Complex(operand, lib.zeros_like(operand))
    last = shape.rank - 1
    dimensions = range(last + 1 - len(lengths), last + 1)
    sign = 1 if kind in ("IFFT", "IRFFT") else -1
    for dimension in dimensions if kind == "IRFFT" else reversed(dimensions):
        if kind == "IRFFT" and dimension == last:
            value = _with_conjugates(value, lengths[-1])
        value = _along(value, dimension, sign)
        if kind == "RFFT" and dimension == last:
            kept = result.dimensions[-1]
            value = _Complex(*(xb.slice_in_dim(part, 0, kept, 1, last) for part in value))
    if sign > 0:
        value = _Complex(*(part / math.prod(lengths) for part in value))
    return value.real if kind == "IRFFT" else xb.complex(*value)


def _with_conjugates(value: _Complex, length: int) -> _Complex:
    """Append the elements that an RFFT omits along the last dimension: conjugates, mirrored."""
    last = shape_of(value.real).rank - 1
    size = shape_of(value.real).dimensions[last]
    if length == size:
        return value
    real, imag = (
        xb.rev(xb.slice_in_dim(part, 1, length - size + 1, 1, last), [last]) for part in value
    )
    return _Complex(
        xb.concat_in_dim([value.real, real], last), xb.concat_in_dim([value.imag, -imag], last)
    )


def _along(value: _Complex, dimension: int, sign: int) -> _Complex:
    """Transform along a dimension; `sign`, of the exponents, is -1, or 1 for the inverse."""
    sizes = shape_of(value.real).dimensions
    outer, inner = math.prod(sizes[:dimension]), math.prod(sizes[dimension + 1 :])
    middle = (outer, sizes[dimension], inner)
    value = _Complex(*(xb.reshape(part, middle) for part in value))
    return _Complex(*(xb.reshape(part, sizes) for part in _middle(value, sign)))


def _middle(value: _Complex, sign: int) -> _Complex:
    """Transform along the second of three dimensions, without a factor for the inverse."""
    outer, length, inner = shape_of(value.real).dimensions
    prime = next((n for n in range(2, math.isqrt(length) + 1) if length % n == 0), length)
    rest = length // prime
    if rest == 1:
        if prime > _LARGE_PRIME:
            return _convolved(value, sign)
        return _product(value, _roots(np.outer(np.arange(prime), np.arange(prime)), prime, sign))
    # The element at n = prime * i + j has the coefficient at k = rest * l + m.
    value = _Complex(*(xb.reshape(part, (outer, rest, prime * inner)) for part in value))
    value = _middle(value, sign)
    value = _Complex(*(xb.reshape(part, (outer, rest, prime, inner)) for part in value))
    powers = np.outer(np.arange(rest), np.arange(prime))
    value = _multiplied(value, _roots(powers, length, sign), [1, 2])
    parts = (xb.transpose(part, [0, 2, 1, 3]) for part in value)
    value = _Complex(*(xb.reshape(part, (outer, prime, rest * inner)) for part in parts))
    value = _middle(value, sign)
    return _Complex(*(xb.reshape(part, (outer, length, inner)) for part in value))


def _roots(powers: np.ndarray[Any, Any], period: int, sign: int) -> np.ndarray[Any, Any]:
    """Return exp(2 pi i * sign * powers / period)."""
    roots: np.ndarray[Any, Any] = np.exp(sign * 2j * np.pi * (powers % period) / period)
    return roots


def _constants(like: XlaOp, numbers: np.ndarray[Any, Any]) -> tuple[XlaOp, XlaOp]:
    """Return the real and imaginary parts of numbers, in the element type of an op."""
    dtype = shape_of(like).element_type.dtype
    real, imag = (
        like.builder.constant(part.astype(dtype)) for part in (numbers.real, numbers.imag)
    )
    return real, imag


def _product(value: _Complex, matrix: np.ndarray[Any, Any]) -> _Complex:
    """Multiply a symmetric matrix with the second of three dimensions."""
    real, imag = _constants(value.real, matrix)

    def dot(part: XlaOp, factors: XlaOp) -> XlaOp:
        product = xb.dot_general(part, factors, (([1], [0]), ([], [])), precision="HIGHEST")
        return xb.transpose(product, [0, 2, 1])

    return _Complex(
        dot(value.real, real) - dot(value.imag, imag),
        dot(value.real, imag) + dot(value.imag, real),
    )


def _multiplied(
    value: _Complex, factors: np.ndarray[Any, Any], dimensions: Sequence[int]
) -> _Complex:
    """Multiply elements with factors, which vary along these dimensions."""
    sizes = shape_of(value.real).dimensions
    real, imag = (
        xb.broadcast_in_dim(part, sizes, dimensions) for part in _constants(value.real, factors)
    )
    return _Complex(value.real * real - value.imag * imag, value.real * imag + value.imag * real)


def _convolved(value: _Complex, sign: int) -> _Complex:
    """Transform along the second of three dimensions, of any length, by Bluestein's algorithm.

    nk = (n^2 + k^2 - (k - n)^2) / 2, so the transform is a convolution with the chirp
    exp(-pi i sign n^2 / length), which transforms of a greater length compute.
    """
    _, length, _ = shape_of(value.real).dimensions
    squares = np.arange(length) ** 2
    chirp = _roots(squares, 2 * length, sign)
    size = 1 << (2 * length - 2).bit_length()
    kernel = np.zeros(size, complex)
    kernel[:length] = chirp.conj()
    kernel[size - length + 1 :] = chirp.conj()[:0:-1]
    value = _multiplied(value, chirp, [1])
    zero = value.real.builder.constant(0, shape_of(value.real).element_type)
    padding = [(0, 0, 0), (0, size - length, 0), (0, 0, 0)]
    value = _middle(_Complex(*(xb.pad(part, zero, padding) for part in value)), -1)
    value = _multiplied(value, np.fft.fft(kernel) / size, [1])
    value = _middle(value, 1)
    value = _Complex(*(xb.slice_in_dim(part, 0, length, 1, 1) for part in value))
    return _multiplied(value, chirp, [1])
