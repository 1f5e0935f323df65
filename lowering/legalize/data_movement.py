"""Rewrites of operations that only move elements or bits, where XLA changes some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import intern_array
from lowering.legalize.op_builder import OpBuilder, integers_of
from lowering.legalize.partitions import is_manual
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


@rewrite("stablehlo.pad", platforms=ALL_PLATFORMS)
def padding_of_partitions(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace interior padding by padding of added dimensions, and negative padding by a slice.

    XLA's partitioner pads shards incorrectly, fails or aborts. This affects interior padding if the
    result has fewer tiles than there are devices, or if the low padding is negative. It affects
    negative padding if the result is sharded and the operand is not. Bounded dimensions are padded
    first, because XLA does not partition them.

    Shown by: pad_interior_of_few_tiles, pad_interior_cut, pad_cut_of_tiles,
    pad_cut_beside_a_bounded_size.
    """
    if not b.target.is_partitioned or is_manual(operation):
        return None
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    paddings = [integers_of(operation, name) for name in names]
    value, filling = operation.operands
    shape, result = b.array_of(value), b.array_of(operation.results[0])
    bounded = [d for d in range(shape.rank) if shape.dynamic_dimensions[d]]
    low, high, interior = (_without(padding, bounded) for padding in paddings)
    if not (any(interior) or min(*low, *high, 0, 0) < 0):
        return None
    if 0 in shape.dimensions:
        return [b.spread(filling, result)] if shape.is_static else None
    if any(padding[d] for padding in paddings for d in bounded):
        fixed = [d for d in range(shape.rank) if d not in bounded]
        attributes = {n: _without(p, fixed) for n, p in zip(names, paddings, strict=True)}
        sizes = list(shape.dimensions)
        for d in bounded:
            sizes[d] = result.dimensions[d]
        padded = intern_array(shape.element_type, tuple(sizes), shape.dynamic_dimensions)
        value = b("pad", padded, [value, filling], attributes)
    return [b.on_fixed_sizes([value], lambda v: _padded(b, v, filling, low, high, interior))]


def _without(padding: Sequence[int], dimensions: Sequence[int]) -> list[int]:
    """Return numbers of a padding, with 0 for some dimensions."""
    return [0 if d in dimensions else number for d, number in enumerate(padding)]


def _padded(
    b: OpBuilder,
    value: Value,
    filling: Value,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
) -> Value:
    """Pad an array of fixed sizes without interior or negative padding."""
    if any(interior):
        value = _spaced(b, value, filling, interior)
        # The padding behind the last element of a dimension is not interior.
        high = [number - extra for number, extra in zip(high, interior, strict=True)]
    if max(*low, *high) > 0:
        value = b.padded(value, filling, *([max(n, 0) for n in edge] for edge in (low, high)))
    if min(*low, *high) < 0:
        sizes = b.array_of(value).dimensions
        limits = [size + min(number, 0) for size, number in zip(sizes, high, strict=True)]
        value = b.sliced(value, [-min(number, 0) for number in low], limits)
    return value


def _spaced(b: OpBuilder, value: Value, filling: Value, interior: Sequence[int]) -> Value:
    """Add padding behind each element: [n] becomes [n, 1], [n, 1 + extra] and [n * (1 + extra)]."""
    sizes = b.array_of(value).dimensions
    value = b.reshaped(value, [size for n in sizes for size in (n, 1)])
    high = [number for extra in interior for number in (0, extra)]
    value = b.padded(value, filling, [0] * len(high), high)
    return b.reshaped(value, [n * (1 + extra) for n, extra in zip(sizes, interior, strict=True)])


TWO_BITS: Final = {pt.s2: pt.s8, pt.u2: pt.u8}
"""For each 2-bit type, the wider type in which XLA moves the elements correctly."""

CARRIERS: Final = {
    **TWO_BITS,
    pt.bf16: pt.u16,
    **{t: pt.u8 for t in pt.ALL if t.is_floating and t.bits == 8},
}
"""The element types that XLA's CPU backend changes in transfers between devices.

The value is an integer type in which XLA sends the elements unchanged.
"""

_SMALL_FLOATS: Final = {pt.f8e5m2: pt.u8, pt.f8e4m3: pt.u8, pt.f8e3m4: pt.u8}


@rewrite("stablehlo.concatenate", platforms=("cpu",))
def concatenate_of_two_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Concatenate elements of s2 and u2 in s8 and u8.

    XLA's CPU compiler aborts on a concatenate of 2-bit elements.

    Shown by: concatenate_s2.
    """
    return b.in_types(operation, TWO_BITS)


@rewrite(
    "stablehlo.concatenate",
    "stablehlo.pad",
    "stablehlo.select",
    "stablehlo.slice",
    "stablehlo.reverse",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    platforms=("cpu",),
)
def small_floats_as_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Move elements of f8e5m2, f8e4m3 and f8e3m4 as u8.

    XLA converts elements of f8e5m2, f8e4m3 and f8e3m4 to f16, moves them and converts them back.
    The conversions replace the payloads of NaNs, although the operations should copy the bits.
    jaxlib 0.10 does so in concatenate, pad, select and dynamic_update_slice; 0.12 also in slice,
    reverse and dynamic_slice.

    Shown by: concatenate_f8e5m2_nan, concatenate_f8e4m3_nan, concatenate_f8e3m4_nan,
    pad_f8e5m2_nan, select_f8e5m2_nan, slice_f8e5m2_nan, reverse_f8e5m2_nan,
    dynamic_slice_f8e5m2_nan, dynamic_update_slice_f8e5m2_nan.
    """
    return b.in_types(operation, _SMALL_FLOATS)


@rewrite(
    "stablehlo.concatenate",
    "stablehlo.pad",
    "stablehlo.dynamic_update_slice",
    platforms=("cpu",),
    fixed_in=(0, 12),
)
def bf16_as_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Move elements of bf16 as u16.

    XLA converts elements of bf16 to f32, moves them and converts them back. The conversions quiet
    signalling NaNs, although these operations should copy the bits. XLA does so in select too,
    which is not rewritten: programs select often, and the bitcasts keep XLA from fusing a select
    with other operations.

    Shown by: concatenate_bf16_nan, pad_bf16_nan, dynamic_update_slice_bf16_nan.
    """
    return b.in_types(operation, {pt.bf16: pt.u16})
