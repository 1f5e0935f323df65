"""Fourier transforms of any length as matrix products of real numbers.

A length is split into its prime factors: a transform of length p * q is one of length q, a product
with roots of unity, and one of length p. A prime length is a product with a matrix; a large one
is a convolution (Bluestein's algorithm), which has transforms of a power of 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import builder as xb
from builder import lib
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import shape_of
from lowering.portable.expanding import expansion

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
