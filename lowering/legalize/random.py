"""Random numbers that XLA lacks, or gets wrong."""

from __future__ import annotations

from typing import Final

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, intern_array
from lowering.legalize.op_builder import OpBuilder, array_of, attributes_of
from lowering.legalize.registry import Value, refuse, rewrite

_PHILOX: Final = ("tensor<2xui64>", "tensor<3xui64>")
_STATES: Final = {"THREE_FRY": _PHILOX[:1], "PHILOX": _PHILOX, "DEFAULT": _PHILOX}
"""The types of the states that XLA accepts."""


@rewrite("stablehlo.rng", platforms=("cpu", "gpu"))
def rng_of_few_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Draw integers of fewer than 32 bits in 32 bits, and normal floats of 8 bits in f32.

    XLA's compiler aborts on others.

    Shown by: rng_uniform_u8.
    """
    shape = array_of(operation.results[0])
    wide = _wide(shape.element_type)
    if wide is shape.element_type or _is_uniform_float(operation, shape):
        return None
    *scalars, sizes = operation.operands
    operands = [*(b.converted(value, wide) for value in scalars), sizes]
    drawn = b("rng", shape.with_element_type(wide), operands, attributes_of(operation))
    return [b.converted(drawn, shape.element_type)]


def _wide(element_type: PrimitiveType) -> PrimitiveType:
    if element_type.is_floating:
        return pt.f32 if element_type.bits <= 8 else element_type
    if element_type.bits >= 32:
        return element_type
    return pt.s32 if element_type.is_signed else pt.u32


def _is_uniform_float(operation: ir.Operation, shape: ArrayShape) -> bool:
    uniform = "UNIFORM" in str(operation.attributes["rng_distribution"])
    return uniform and shape.element_type.is_floating


@rewrite("stablehlo.rng", platforms=("cpu", "gpu"))
def uniform_floats(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Keep uniform floats below the upper end, and finite.

    XLA rounds to the element type at the end, which gives the upper end itself: about one in 500
    numbers in bf16 between 0 and 1 is 1. If the ends are farther apart than the largest number, all
    numbers are infinite.

    Shown by: rng_uniform_bf16, rng_uniform_of_far_ends.
    """
    shape = array_of(operation.results[0])
    if not _is_uniform_float(operation, shape):
        return None
    element_type = shape.element_type
    wide = pt.f64 if element_type is pt.f64 else pt.f32
    scalar, drawn = intern_array(wide, ()), shape.with_element_type(wide)
    low, high, sizes = operation.operands
    first, last = b.converted(low, wide), b.converted(high, wide)
    # If the ends are too far apart, draw between their halves, and double the numbers.
    distance = b("subtract", scalar, [last, first])
    near = b("is_finite", scalar.with_element_type(pt.pred), [distance])
    half, one, two = (b.number(n, wide) for n in (0.5, 1, 2))
    shrink = b("select", scalar, [near, one, half])
    stretch = b("select", scalar, [near, one, two])
    ends = [b("multiply", scalar, [end, shrink]) for end in (first, last)]
    numbers = b("rng", drawn, [*ends, sizes], attributes_of(operation))
    numbers = b("multiply", drawn, [numbers, b.spread(stretch, drawn)])
    numbers = b.converted(numbers, element_type)
    below = b.converted(_below(b, last, element_type), element_type)
    numbers = b("minimum", shape, [numbers, b.spread(below, shape)])
    return [b("maximum", shape, [numbers, b.spread(low, shape)])]


def _below(b: OpBuilder, number: Value, element_type: PrimitiveType) -> Value:
    """A number that, rounded to `element_type`, is the next below `number`, or nearly.

    It is smaller by a little more than half the distance between two numbers; near zero, where that
    is 0, by the least number of the wider type.
    """
    shape = array_of(number)
    info = pt.float_info(element_type)
    wide = np.finfo(shape.element_type.dtype)
    step = 1.125 * float(info.eps) / 2
    least = max(float(info.smallest_subnormal), float(wide.smallest_normal))
    size = b("abs", shape, [number])
    part = b("multiply", shape, [size, b.number(step, shape.element_type)])
    part = b("maximum", shape, [part, b.number(least, shape.element_type)])
    return b("subtract", shape, [number, part])


def _takes_its_state(operation: ir.Operation) -> bool:
    text = str(operation.attributes["rng_algorithm"])
    types = next(types for name, types in _STATES.items() if name in text)
    return str(operation.operands[0].type) in types


refuse(
    "stablehlo.rng_bit_generator",
    "cpu",
    reason="XLA takes a state of u64[2] for RNG_THREE_FRY, of u64[2] or u64[3] for RNG_PHILOX and "
    "RNG_DEFAULT, and no other",
    fix="give such a state; xb.bitcast_convert_type makes u64[2] of u32[2,2]",
    unless=_takes_its_state,
)
