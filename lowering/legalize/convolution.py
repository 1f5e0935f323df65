"""Rewrites of convolutions of element types that GPU convolutions do not support."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from lowering.legalize.op_builder import OpBuilder, array_of
from lowering.legalize.registry import Value, rewrite

_PIECE_BITS: Final = 16
"""The number of bits of the pieces into which integers are split; f64 convolves the pieces."""

_MAX_TERMS: Final = 2 ** (53 - 2 * _PIECE_BITS)
"""The largest number of products of two pieces that f64 can sum exactly."""

_SUPPORTED_SMALL_FLOATS: Final = frozenset((pt.f8e5m2, pt.f8e4m3fn))
"""The 8-bit floats that the convolution library for GPUs supports."""


@rewrite("stablehlo.convolution", platforms=("gpu",))
def convolution_of_other_types(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convolve complex numbers by their parts, integers by pieces in f64, small floats in f32.

    The convolution library for GPUs supports s8, f8e5m2, f8e4m3fn and wider floats. f64 sums the
    products of 16-bit pieces of integers exactly. These sums are added as integers, which wrap.
    """
    shapes = [array_of(value) for value in (*operation.operands, *operation.results)]
    if not all(shape.is_static for shape in shapes):
        return None
    types = {shape.element_type for shape in shapes}
    if any(t.is_complex for t in types):
        result = _by_parts(b, operation)
    elif any(t.is_floating and t.bits <= 8 and t not in _SUPPORTED_SMALL_FLOATS for t in types):
        result = _convolved(b, operation, *(b.converted(v, pt.f32) for v in operation.operands))
    elif all(t.is_integral for t in types) and types != {pt.s8} and _is_exact(operation):
        result = _by_pieces(b, operation, shapes[-1].element_type)
    else:
        return None
    return [b.converted(result, shapes[-1].element_type)]


def _convolved(b: OpBuilder, operation: ir.Operation, lhs: Value, rhs: Value) -> Value:
    """Apply the convolution to other operands; the result has their element type."""
    shape = array_of(operation.results[0]).with_element_type(array_of(lhs).element_type)
    return b.like(operation, [lhs, rhs], [shape]).results[0]


def _is_exact(operation: ir.Operation) -> bool:
    """Whether f64 can sum the products of pieces exactly."""
    return array_of(operation.operands[1]).element_count <= _MAX_TERMS


def _by_parts(b: OpBuilder, operation: ir.Operation) -> Value:
    (a, ai), (c, ci) = (b.parts(operand) for operand in operation.operands)
    pairs = ((a, c), (ai, ci), (a, ci), (ai, c))
    ac, bd, ad, bc = (_convolved(b, operation, *pair) for pair in pairs)
    real, imag = b.elementwise("subtract", ac, bd), b.elementwise("add", ad, bc)
    element_type = array_of(operation.operands[0]).element_type
    return b("complex", array_of(real).with_element_type(element_type), [real, imag])


def _by_pieces(b: OpBuilder, operation: ir.Operation, to: PrimitiveType) -> Value:
    lhs, rhs = operation.operands
    total: Value = None
    for lhs_number, lhs_piece in enumerate(_pieces(b, lhs)):
        for rhs_number, rhs_piece in enumerate(_pieces(b, rhs)):
            shift = _PIECE_BITS * (lhs_number + rhs_number)
            if shift >= to.bits:
                continue
            product = _convolved(b, operation, lhs_piece, rhs_piece)
            product = b.converted(b.elementwise("round_nearest_even", product), pt.s64)
            if shift:
                places = b.filled(array_of(product), shift)
                product = b.elementwise("shift_left", product, places)
            total = product if total is None else b.elementwise("add", total, product)
    return total


def _pieces(b: OpBuilder, value: Value) -> list[Value]:
    """Split integers into 16-bit pieces as f64, the lowest first; the highest piece is signed."""
    count = -(-array_of(value).element_type.bits // _PIECE_BITS)
    value = b.converted(value, pt.s64)
    shape = array_of(value)
    pieces = []
    for number in range(count):
        piece = value
        if number:
            places = b.filled(shape, _PIECE_BITS * number)
            piece = b.elementwise("shift_right_arithmetic", value, places)
        if number < count - 1:
            piece = b.elementwise("and", piece, b.filled(shape, 2**_PIECE_BITS - 1))
        pieces.append(b.converted(piece, pt.f64))
    return pieces
