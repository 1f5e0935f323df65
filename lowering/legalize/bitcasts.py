"""Rewrites of bitcasts that XLA gets wrong: from or to preds, and between complex types."""

from __future__ import annotations

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import intern_array
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite


@rewrite("stablehlo.bitcast_convert", platforms=ALL_PLATFORMS)
def bitcast_of_preds(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Bitcast from and to preds by shifts.

    A pred (i1) has one bit in StableHLO: a bitcast of an s8 to preds appends a dimension of size 8.
    A pred of XLA has eight bits. XLA bitcasts each s8 to one pred, and the shape of the result
    differs from the shape that the module declares.

    Shown by: bitcast_convert_s8_pred, bitcast_convert_pred_s8.
    """
    (operand,), (result,) = operation.operands, operation.results
    source, target = b.element_type(operand), b.element_type(result)
    if source is target or pt.pred not in (source, target):
        return None
    if target is pt.pred:
        return [b.on_fixed_sizes([operand], lambda value: _bits_as_preds(b, value))]
    to = b.array_of(result).element_type
    return [b.on_fixed_sizes([operand], lambda value: _preds_as_bits(b, value, to))]


def _unsigned(bits: int) -> PrimitiveType:
    return pt.from_name(f"u{bits}")


def _bits_as_preds(b: OpBuilder, value: Value) -> Value:
    """Return the bits of each element as preds along a new last dimension."""
    source = b.array_of(value)
    bits = source.element_type.bits
    words = b.converted(b.bitcast(value, _unsigned(bits)), _unsigned(max(bits, 8)))
    shape = intern_array(_unsigned(max(bits, 8)), (*source.dimensions, bits))
    spread = b.spread(words, shape, range(source.rank))
    shifted = b.elementwise("shift_right_logical", spread, b.counted(shape, source.rank))
    return b.converted(b.elementwise("and", shifted, b.filled(shape, 1)), pt.pred)


def _preds_as_bits(b: OpBuilder, value: Value, to: PrimitiveType) -> Value:
    """Combine the preds along the last dimension to the bits of one element."""
    wide = b.converted(value, _unsigned(max(to.bits, 8)))
    shape = b.array_of(wide)
    last = shape.rank - 1
    shifted = b.elementwise("shift_left", wide, b.counted(shape, last))
    return b.bitcast(b.converted(b.reduced(shifted, [last], 0, "or"), _unsigned(to.bits)), to)


@rewrite("stablehlo.bitcast_convert", platforms=ALL_PLATFORMS)
def bitcast_of_complex_numbers(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Bitcast between c64 and c128 by the real and the imaginary parts.

    A bitcast of one c128 should return two c64, and a bitcast of two c64 one c128. XLA does not
    support these bitcasts: its shape inference refuses them, or the process aborts.

    Shown by: bitcast_convert_c128_c64, bitcast_convert_c64_c128.
    """
    (operand,), (result,) = operation.operands, operation.results
    source, target = b.element_type(operand), b.element_type(result)
    if source is target or source not in (pt.c64, pt.c128):
        return None
    bitcast = _halved if source is pt.c128 else _doubled
    return [b.on_fixed_sizes([operand], lambda value: bitcast(b, value))]


def _halved(b: OpBuilder, value: Value) -> Value:
    """Bitcast each c128 to two c64: the bits of the real part, and of the imaginary part."""
    halves = intern_array(pt.f32, (*b.array_of(value).dimensions, 2))
    real, imag = (b("bitcast_convert", halves, [part]) for part in b.parts(value))
    return b("complex", halves.with_element_type(pt.c64), _transposed(b, real, imag))


def _doubled(b: OpBuilder, value: Value) -> Value:
    """Bitcast each pair of c64 to one c128."""
    shape = intern_array(pt.f64, b.array_of(value).dimensions[:-1])
    pairs = _transposed(b, *b.parts(value))
    parts = [b("bitcast_convert", shape, [pair]) for pair in pairs]
    return b("complex", shape.with_element_type(pt.c128), parts)


def _transposed(b: OpBuilder, first: Value, second: Value) -> list[Value]:
    """Return two arrays of pairs: (first[..., 0], second[..., 0]), (first[..., 1], second[..., 1]).

    Both operands have sizes [..., 2].
    """
    *outer, _ = b.array_of(first).dimensions
    zeros = [0] * len(outer)
    pairs = []
    for index in (0, 1):
        begin, end = [*zeros, index], [*outer, index + 1]
        elements = [b.sliced(value, begin, end) for value in (first, second)]
        pairs.append(b.concatenated(elements, len(outer)))
    return pairs
