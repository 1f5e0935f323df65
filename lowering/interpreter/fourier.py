"""Expand Fourier transforms for the interpreter.

The interpreter's implementation adds up all terms in the element type, so its error grows with the
length. Before jaxlib 0.12 it also fails on real numbers. The expansion splits the length into its
prime factors, and computes in c128.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import intern_array
from lowering.legalize.linalg import has_full_lengths
from lowering.legalize.op_builder import OpBuilder, array_of, integers_of
from lowering.legalize.registry import INTERPRETER, Value, rewrite

_CONTRACT: Final = (
    "#stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>"
)


@rewrite("stablehlo.fft", platforms=(INTERPRETER,))
def fft(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Transform along each dimension, from the last to the first.

    For a real result, the order is from the first to the last.
    """
    result = array_of(operation.results[0])
    if not result.is_static or not has_full_lengths(operation):
        return None
    if 0 in result.dimensions:
        return [b.filled(result, 0)]
    value = _as_complex(b, operation.operands[0])
    lengths = integers_of(operation, "fft_length")
    to_real = not result.element_type.is_complex
    from_real = not array_of(operation.operands[0]).element_type.is_complex
    sign = 1 if to_real or "IFFT" in str(operation.attributes["fft_type"]) else -1
    last = result.rank - 1
    dimensions = range(last + 1 - len(lengths), last + 1)
    for dimension in dimensions if to_real else reversed(dimensions):
        if to_real and dimension == last:
            value = _with_conjugates(b, value, lengths[-1])
        value = _transformed(b, value, dimension, sign)
        if from_real and dimension == last:
            sizes = (*array_of(value).dimensions[:-1], result.dimensions[-1])
            value = b.sliced(value, [0] * result.rank, sizes)
    if to_real:
        value, _ = b.parts(value)
    return [b.converted(value, result.element_type)]


def _as_complex(b: OpBuilder, value: Value) -> Value:
    shape = array_of(value)
    if shape.element_type.is_complex:
        return b.converted(value, pt.c128)
    real = b.converted(value, pt.f64)
    zeros = b.filled(shape.with_element_type(pt.f64), 0)
    return b("complex", shape.with_element_type(pt.c128), [real, zeros])


def _with_conjugates(b: OpBuilder, value: Value, length: int) -> Value:
    """Append the elements that an RFFT omits along the last dimension: conjugates, mirrored."""
    shape = array_of(value)
    *batch, size = shape.dimensions
    if length == size:
        return value
    mirrored = b.sliced(value, [0] * len(batch) + [1], [*batch, length - size + 1])
    mirrored = b("reverse", mirrored.type, [mirrored], {"dimensions": [len(batch)]})
    real, imag = b.parts(mirrored)
    conjugates = b("complex", mirrored.type, [real, b.elementwise("negate", imag)])
    return b.concatenated([value, conjugates], len(batch))


def _transformed(b: OpBuilder, value: Value, dimension: int, sign: int) -> Value:
    """Transform along a dimension; `sign`, of the exponents, is -1, or 1 for the inverse."""
    sizes = array_of(value).dimensions
    outer, inner = math.prod(sizes[:dimension]), math.prod(sizes[dimension + 1 :])
    middle = b.reshaped(value, (outer, sizes[dimension], inner))
    return b.reshaped(_middle_transformed(b, middle, sign), sizes)


def _middle_transformed(b: OpBuilder, value: Value, sign: int) -> Value:
    """Transform along the second of three dimensions.

    The length is split into a prime factor and the rest. A recursive call transforms along the
    rest, and a product with a matrix transforms along the prime factor.
    """
    outer, length, inner = array_of(value).dimensions
    prime = next((n for n in range(2, math.isqrt(length) + 1) if length % n == 0), length)
    rest = length // prime
    if rest > 1:
        value = b.reshaped(value, (outer, rest, prime * inner))
        value = _middle_transformed(b, value, sign)
    value = b.reshaped(value, (outer, rest, prime, inner))
    if rest > 1:
        factors = b.array(_roots(rest, prime, sign * length), pt.c128)
        value = b.elementwise("multiply", value, b.spread(factors, array_of(value), [1, 2]))
    matrix = _roots(prime, prime, sign * prime) / (prime if sign > 0 else 1)
    product = b(
        "dot_general",
        intern_array(pt.c128, (outer, rest, inner, prime)),
        [value, b.array(matrix, pt.c128)],
        {"dot_dimension_numbers": _CONTRACT},
    )
    digits = intern_array(pt.c128, (outer, prime, rest, inner))
    swapped = b("transpose", digits, [product], {"permutation": [0, 3, 1, 2]})
    return b.reshaped(swapped, (outer, length, inner))


def _roots(rows: int, columns: int, period: int) -> np.ndarray[Any, Any]:
    """Return a matrix of exp(2 pi i * row * column / period), with roots of unity as elements."""
    powers = np.outer(np.arange(rows), np.arange(columns)) % abs(period)
    roots: np.ndarray[Any, Any] = np.exp(2j * np.pi * powers / period)
    return roots
