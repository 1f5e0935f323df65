"""stochastic_convert in StableHLO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from lowering.stablehlo.rules.common import as_array, compared, filled
from lowering.stablehlo.rules.registry import Value, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


@rule("stochastic_convert")
def stochastic_convert(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit operations that round at random to signed integers, as XLA expands the HLO operation.

    StableHLO has no stochastic convert. MHLO's operation is emitted for bounded sizes, because
    constants can't have bounded sizes; and for other result types, which `compile` refuses. Floats
    of less than 32 bits are converted to f32, which can represent 2**bits for the random bits.
    """
    value, random = operands
    shape, real, bits = map(as_array, (op.shape, op.operands[0].shape, op.operands[1].shape))
    target = shape.element_type
    if not (target.is_integral and target.is_signed and shape.is_static):
        return ctx.value("mhlo.stochastic_convert", shape, operands)
    if real.element_type.bits < 32:
        value = ctx.converted(value, real, pt.f32)
        real = real.with_element_type(pt.f32)
    magnitude = ctx.value("stablehlo.abs", real, [value])
    floor = ctx.value("stablehlo.floor", real, [magnitude])
    fraction = ctx.value("stablehlo.subtract", real, [magnitude, floor])
    factor = filled(ctx, real, 2**bits.element_type.bits)
    scaled = ctx.value("stablehlo.multiply", real, [fraction, factor])
    chance = ctx.converted(scaled, real, bits.element_type)
    is_up = compared(ctx, bits, "LT", "UNSIGNED", random, chance)
    rounded = ctx.converted(floor, real, target)
    more = ctx.value("stablehlo.add", shape, [rounded, filled(ctx, shape, 1)])
    rounded = ctx.value("stablehlo.select", shape, [is_up, more, rounded])
    is_negative = compared(ctx, real, "LT", "FLOAT", value, filled(ctx, real, 0))
    opposite = ctx.value("stablehlo.negate", shape, [rounded])
    result = ctx.value("stablehlo.select", shape, [is_negative, opposite, rounded])
    for end, direction in ((target.min, "LE"), (target.max, "GE")):
        is_beyond = compared(ctx, real, direction, "FLOAT", value, filled(ctx, real, float(end)))
        limit = filled(ctx, shape, int(end))
        result = ctx.value("stablehlo.select", shape, [is_beyond, limit, result])
    return result
