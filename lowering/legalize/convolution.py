"""Convolutions of elements that XLA has none of on GPUs: integers, complex and small floats.

A GPU's library convolves s8 and floats. So complex numbers are convolved in their parts, small
floats in f32, and integers in f64: in pieces of 16 bits, of which it sums the products up exactly,
so that the results are those of integers, which wrap around.
"""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.shape import ArrayShape
from lowering.legalize.contraction import bounded_convolution
from lowering.legalize.registry import Rewriter, Value, rewrite
from lowering.legalize.words import Words, array_of, attributes_of

_PIECE: Final = 16
"""How many bits of an integer are convolved at a time."""

_MOST_TERMS: Final = 2 ** (53 - 2 * _PIECE)
"""Of so many products of two pieces f64 holds the sum exactly."""

_SMALL_FLOATS: Final = frozenset((pt.f8e5m2, pt.f8e4m3fn))
"""The floats of 8 bits that a GPU's library convolves."""


@rewrite("stablehlo.convolution", "gpu")
def convolution(rewriter: Rewriter, operation: ir.Operation) -> None:
    shapes = [array_of(value) for value in (*operation.operands, *operation.results)]
    if not all(shape.is_static for shape in shapes):
        bounded_convolution(rewriter, operation)
        return
    write = _Writer(rewriter, operation)
    types = {shape.element_type for shape in shapes}
    left, right = operation.operands
    if any(t.is_complex for t in types):
        result = write.of_parts(left, right)
    elif any(t.is_floating and t.bits <= 8 and t not in _SMALL_FLOATS for t in types):
        result = write.convolved(*(write.converted(v, pt.f32) for v in (left, right)))
    elif all(t.is_integral for t in types) and types != {pt.s8} and write.is_exact():
        result = write.of_pieces(left, right)
    else:
        return
    rewriter.replace(operation, [write.converted(result, shapes[-1].element_type)])


class _Writer(Words):
    """Writes convolutions like that which is replaced, of other elements."""

    def shape(self, element_type: pt.PrimitiveType) -> ArrayShape:
        """The result's, with other elements."""
        return array_of(self.before.results[0]).with_element_type(element_type)

    def convolved(self, left: Value, right: Value) -> Value:
        result = self.shape(array_of(left).element_type)
        return self("convolution", result, [left, right], attributes_of(self.before))

    def is_exact(self) -> bool:
        """Whether f64 holds the sums of products of pieces."""
        return array_of(self.before.operands[1]).element_count <= _MOST_TERMS

    def of_parts(self, left: Value, right: Value) -> Value:
        part = array_of(left).element_type.real_type
        (a, b), (c, d) = (
            [self(n, array_of(v).with_element_type(part), [v]) for n in ("real", "imag")]
            for v in (left, right)
        )
        ac, bd, ad, bc = (self.convolved(*pair) for pair in ((a, c), (b, d), (a, d), (b, c)))
        real = self("subtract", self.shape(part), [ac, bd])
        imaginary = self("add", self.shape(part), [ad, bc])
        return self("complex", self.shape(array_of(left).element_type), [real, imaginary])

    def of_pieces(self, left: Value, right: Value) -> Value:
        whole = self.shape(pt.s64)
        bits = array_of(self.before.results[0]).element_type.bits
        total: Value = None
        for first, one in enumerate(self.pieces(left)):
            for second, other in enumerate(self.pieces(right)):
                places = _PIECE * (first + second)
                if places >= bits:
                    continue
                product = self.convolved(one, other)
                product = self("round_nearest_even", self.shape(pt.f64), [product])
                product = self.converted(product, pt.s64)
                if places:
                    by = self.spread(self.number(places, pt.s64), whole)
                    product = self("shift_left", whole, [product, by])
                total = product if total is None else self("add", whole, [total, product])
        return total

    def pieces(self, value: Value) -> list[Value]:
        """The bits of integers, the lowest first, as f64; those of the highest have the sign."""
        count = -(-array_of(value).element_type.bits // _PIECE)
        value = self.converted(value, pt.s64)
        shape = array_of(value)
        found = []
        for number in range(count):
            piece = value
            if number:
                by = self.spread(self.number(_PIECE * number, pt.s64), shape)
                piece = self("shift_right_arithmetic", shape, [value, by])
            if number < count - 1:
                mask = self.spread(self.number(2**_PIECE - 1, pt.s64), shape)
                piece = self("and", shape, [piece, mask])
            found.append(self.converted(piece, pt.f64))
        return found
