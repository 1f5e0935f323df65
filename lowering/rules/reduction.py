"""Reductions in StableHLO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.xla_op import XlaOp
from lowering.flattening import unflatten
from lowering.rules.registry import Value, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter


@rule("reduce")
def reduce(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"dimensions": ctx.mlir.i64_array(op.attributes["dimensions"])}
    operation = ctx.create("stablehlo.reduce", op.shape, operands, attributes, regions=1)
    ctx.emit_region(operation.regions[0], op.attributes["to_apply"])
    return unflatten(op.shape, iter(operation.results))
