"""Rewrites of random numbers that XLA does not support, or generates incorrectly."""

from __future__ import annotations

from typing import Final

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import intern_array
from lowering.legalize.op_builder import F32_FOR_NARROW_FLOATS, OpBuilder, array_of, attributes_of
from lowering.legalize.registry import ALL_PLATFORMS, Value, refuse, rewrite

_PHILOX: Final = ("tensor<2xui64>", "tensor<3xui64>")
_STATES: Final = {"THREE_FRY": _PHILOX[:1], "PHILOX": _PHILOX, "DEFAULT": _PHILOX}
"""The types of the states that XLA accepts."""

_WIDE: Final = {
    **F32_FOR_NARROW_FLOATS,
    **{t: pt.s32 if t.is_signed else pt.u32 for t in pt.ALL if t.is_integral and t.bits < 32},
    pt.pred: pt.u32,
}


@rewrite("stablehlo.rng", platforms=("cpu", "gpu"))
def rng_of_few_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Generate integers of fewer than 32 bits in 32 bits, and normally distributed floats in f32.

    XLA's compiler aborts on rng of integers of fewer than 32 bits, and on rng of normally
    distributed floats of at most 8 bits.

    Shown by: rng_uniform_u8.
    """
    return None if _is_uniform_float(operation) else b.in_types(operation, _WIDE, 2)


def _is_uniform_float(operation: ir.Operation) -> bool:
    is_uniform = "UNIFORM" in str(operation.attributes["rng_distribution"])
    return is_uniform and array_of(operation.results[0]).element_type.is_floating


@rewrite("stablehlo.rng", platforms=("cpu", "gpu"))
def uniform_floats(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Limit uniform floats to numbers below the upper end of the range.

    XLA rounds the numbers to the element type at the end. Some are rounded to the upper end, which
    is excluded: about one in 500 numbers in bf16 between 0 and 1 is 1. If the distance between the
    ends is larger than the largest number, all numbers are infinite.

    Shown by: rng_uniform_bf16, rng_uniform_of_far_ends.
    """
    if not _is_uniform_float(operation):
        return None
    shape = array_of(operation.results[0])
    element_type = shape.element_type
    wide = pt.f64 if element_type is pt.f64 else pt.f32
    wide_shape = shape.with_element_type(wide)
    low, high, sizes = operation.operands
    first, last = b.converted(low, wide), b.converted(high, wide)
    # If the distance is too large, generate numbers between half of the ends, and double them.
    distance = b.elementwise("subtract", last, first)
    is_near = b("is_finite", intern_array(pt.pred, ()), [distance])
    half, one, two = (b.number(n, wide) for n in (0.5, 1, 2))
    shrink, stretch = b.selected(is_near, one, half), b.selected(is_near, one, two)
    ends = [b.elementwise("multiply", end, shrink) for end in (first, last)]
    numbers = b("rng", wide_shape, [*ends, sizes], attributes_of(operation))
    numbers = b.elementwise("multiply", numbers, b.spread(stretch, wide_shape))
    numbers = b.converted(numbers, element_type)
    below = b.converted(_below(b, last, element_type), element_type)
    numbers = b.elementwise("minimum", numbers, b.spread(below, shape))
    return [b.elementwise("maximum", numbers, b.spread(low, shape))]


def _below(b: OpBuilder, number: Value, element_type: PrimitiveType) -> Value:
    """A number that rounds, at least nearly, to the next lower number of `element_type`.

    The difference is a little more than half the distance between adjacent numbers of
    `element_type`. Near zero, it is at least the smallest positive number of `element_type`, and
    the smallest normal number of the wider type.
    """
    wide = array_of(number).element_type
    info = pt.float_info(element_type)
    step = 1.125 * float(info.eps) / 2
    least = max(float(info.smallest_subnormal), float(np.finfo(wide.dtype).smallest_normal))
    size = b.elementwise("abs", number)
    distance = b.elementwise("multiply", size, b.number(step, wide))
    distance = b.elementwise("maximum", distance, b.number(least, wide))
    return b.elementwise("subtract", number, distance)


@rewrite("stablehlo.rng_bit_generator", platforms=ALL_PLATFORMS)
def random_bits_of_other_types(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Generate the bits of signed integers and floats as unsigned integers, and bitcast them.

    XLA returns unsigned integers instead of the declared type.

    Shown by: rng_bit_generator_s8.
    """
    shape = array_of(operation.results[1])
    element_type = shape.element_type
    is_signed = element_type.is_integral and element_type.is_signed
    if not (is_signed or element_type.is_floating):
        return None
    bits = shape.with_element_type(pt.from_name(f"u{element_type.bits}"))
    state, numbers = b.like(
        operation, operation.operands, [operation.results[0].type, bits]
    ).results
    return [state, b.bitcast(numbers, element_type)]


def _has_valid_state(operation: ir.Operation) -> bool:
    text = str(operation.attributes["rng_algorithm"])
    types = next(types for name, types in _STATES.items() if name in text)
    return str(operation.operands[0].type) in types


refuse(
    "stablehlo.rng_bit_generator",
    "cpu",
    reason="XLA requires a state of u64[2] for RNG_THREE_FRY, and of u64[2] or u64[3] for "
    "RNG_PHILOX and RNG_DEFAULT",
    fix="pass a state of one of these shapes; xb.bitcast_convert_type converts u32[2,2] to u64[2]",
    unless=_has_valid_state,
)
