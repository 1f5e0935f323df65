"""stochastic_convert in StableHLO, and values that other rules need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.mlir.attributes import dense_elements, i64_array
from lowering.stablehlo.rules.registry import Value, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


def filled(ctx: Emitter, shape: ArrayShape, number: int | float) -> Value:
    """An array of one number throughout."""
    scalar = intern_array(shape.element_type, ())
    value = _constant(ctx, scalar, np.array(number).astype(scalar.element_type.dtype))
    dimensions = {"broadcast_dimensions": i64_array(())}
    return ctx.value("stablehlo.broadcast_in_dim", shape, [value], dimensions)


@rule("stochastic_convert")
def stochastic_convert(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Round at random to signed integers, as XLA expands HLO's stochastic-convert.

    StableHLO has no such operation. XLA's expansion of MHLO's serves for bounded sizes, which
    constants can't have; compiling to other types is refused. Floats of less than 32 bits are
    computed in f32, which holds 2 to the number of random bits.
    """
    value, random = operands
    shape, real, bits = op.shape, op.operands[0].shape, op.operands[1].shape
    assert isinstance(shape, ArrayShape)  # checked by inference
    assert isinstance(real, ArrayShape)  # checked by inference
    assert isinstance(bits, ArrayShape)  # checked by inference
    target = shape.element_type
    if not (target.is_integral and target.is_signed and shape.is_static):
        return ctx.value("mhlo.stochastic_convert", shape, operands)
    if real.element_type.bits < 32:
        value = ctx.converted(value, real, pt.f32)
        real = real.with_element_type(pt.f32)
    magnitude = ctx.value("stablehlo.abs", real, [value])
    whole = ctx.value("stablehlo.floor", real, [magnitude])
    fraction = ctx.value("stablehlo.subtract", real, [magnitude, whole])
    factor = filled(ctx, real, 2**bits.element_type.bits)
    scaled = ctx.value("stablehlo.multiply", real, [fraction, factor])
    chance = ctx.converted(scaled, real, bits.element_type)
    up = compared(ctx, bits, "LT", "UNSIGNED", random, chance)
    rounded = ctx.converted(whole, real, target)
    more = ctx.value("stablehlo.add", shape, [rounded, filled(ctx, shape, 1)])
    rounded = ctx.value("stablehlo.select", shape, [up, more, rounded])
    below = compared(ctx, real, "LT", "FLOAT", value, filled(ctx, real, 0))
    opposite = ctx.value("stablehlo.negate", shape, [rounded])
    result = ctx.value("stablehlo.select", shape, [below, opposite, rounded])
    for end, direction in ((target.min, "LE"), (target.max, "GE")):
        beyond = compared(ctx, real, direction, "FLOAT", value, filled(ctx, real, float(end)))
        result = ctx.value(
            "stablehlo.select", shape, [beyond, filled(ctx, shape, int(end)), result]
        )
    return result


def compared(
    ctx: Emitter, shape: ArrayShape, direction: str, kind: str, lhs: Value, rhs: Value
) -> Value:
    """Two values of array shape `shape` compared."""
    attributes = {
        "comparison_direction": f"#stablehlo<comparison_direction {direction}>",
        "compare_type": f"#stablehlo<comparison_type {kind}>",
    }
    return ctx.value("stablehlo.compare", shape.with_element_type(pt.pred), [lhs, rhs], attributes)


def _constant(ctx: Emitter, shape: ArrayShape, array: np.ndarray[Any, Any]) -> Value:
    attributes = {"value": dense_elements(array, shape)}
    return ctx.value("stablehlo.constant", shape, [], attributes)
