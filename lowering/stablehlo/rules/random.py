"""Random numbers of a distribution in StableHLO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import intern_array
from lowering.stablehlo.rules.common import as_array, constant
from lowering.stablehlo.rules.registry import Value, attributes_of, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


@rule("rng")
def rng(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit an rng operation, which takes the sizes of its result as an operand."""
    shape = as_array(op.shape)
    sizes = constant(ctx, intern_array(pt.s64, (shape.rank,)), shape.dimensions)
    return ctx.value("stablehlo.rng", shape, [*operands, sizes], attributes_of(op))
