"""Convolutions on GPUs of element types that their library lacks."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.legalize.op_builder import OpBuilder, array_of, attributes_of
from lowering.legalize.registry import Value, rewrite

_PIECE: Final = 16
"""The number of bits of an integer that are convolved at a time."""

_MOST_TERMS: Final = 2 ** (53 - 2 * _PIECE)
"""The number of products of two pieces whose sum f64 holds exactly."""

_SMALL_FLOATS: Final = frozenset((pt.f8e5m2, pt.f8e4m3fn))
"""The 8-bit floats that the library of GPUs convolves."""


@rewrite("stablehlo.convolution", platforms=("gpu",))
def convolution(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convolve complex numbers by their parts, integers by pieces in f64, small floats in f32.

    The library of GPUs convolves s8 and floats, of 8 bits f8e5m2 and f8e4m3fn. The products of
    16-bit pieces of integers are summed exactly in f64, so that the result wraps as integers do.
    """
    shapes = [array_of(value) for value in (*operation.operands, *operation.results)]
    if not all(shape.is_static for shape in shapes):
        return None
    types = {shape.element_type for shape in shapes}
    if any(t.is_complex for t in types):
        result = _of_parts(b)
    elif any(t.is_floating and t.bits <= 8 and t not in _SMALL_FLOATS for t in types):
        result = _convolved(b, *(b.converted(v, pt.f32) for v in operation.operands))
    elif all(t.is_integral for t in types) and types != {pt.s8} and _is_exact(operation):
        result = _of_pieces(b)
    else:
        return None
    return [b.converted(result, shapes[-1].element_type)]


def _result(b: OpBuilder, element_type: pt.PrimitiveType) -> ArrayShape:
    """The shape of the result, with other elements."""
    return array_of(b.before.results[0]).with_element_type(element_type)


def _convolved(b: OpBuilder, left: Value, right: Value) -> Value:
    """The same convolution of other operands."""
    result = _result(b, array_of(left).element_type)
    return b("convolution", result, [left, right], attributes_of(b.before))


def _is_exact(operation: ir.Operation) -> bool:
    """Whether f64 holds the sums of products of pieces."""
    return array_of(operation.operands[1]).element_count <= _MOST_TERMS


def _of_parts(b: OpBuilder) -> Value:
    left, right = b.before.operands
    part = array_of(left).element_type.real_type
    (a, ai), (c, ci) = (
        [b(n, array_of(v).with_element_type(part), [v]) for n in ("real", "imag")]
        for v in (left, right)
    )
    ac, bd, ad, bc = (_convolved(b, *pair) for pair in ((a, c), (ai, ci), (a, ci), (ai, c)))
    real = b("subtract", _result(b, part), [ac, bd])
    imaginary = b("add", _result(b, part), [ad, bc])
    return b("complex", _result(b, array_of(left).element_type), [real, imaginary])


def _of_pieces(b: OpBuilder) -> Value:
    left, right = b.before.operands
    whole = _result(b, pt.s64)
    bits = array_of(b.before.results[0]).element_type.bits
    total: Value = None
    for first, one in enumerate(_pieces(b, left)):
        for second, other in enumerate(_pieces(b, right)):
            places = _PIECE * (first + second)
            if places >= bits:
                continue
            product = _convolved(b, one, other)
            product = b("round_nearest_even", _result(b, pt.f64), [product])
            product = b.converted(product, pt.s64)
            if places:
                product = b("shift_left", whole, [product, b.filled(whole, places)])
            total = product if total is None else b("add", whole, [total, product])
    return total


def _pieces(b: OpBuilder, value: Value) -> list[Value]:
    """The bits of integers in pieces, the lowest first, as f64; the highest piece has the sign."""
    count = -(-array_of(value).element_type.bits // _PIECE)
    value = b.converted(value, pt.s64)
    shape = array_of(value)
    found = []
    for number in range(count):
        piece = value
        if number:
            by = b.filled(shape, _PIECE * number)
            piece = b("shift_right_arithmetic", shape, [value, by])
        if number < count - 1:
            piece = b("and", shape, [piece, b.filled(shape, 2**_PIECE - 1)])
        found.append(b.converted(piece, pt.f64))
    return found
