"""Sharding constraints in Shardy's dialect. Those of GSPMD are custom calls, see `host`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.graph.xla_op import XlaOp
from builder.sharding.text import leaf_texts
from lowering.mlir.flattening import flatten
from lowering.stablehlo.rules.registry import Value

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


def sharding_constraint(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit the custom call @Sharding with a sharding of Shardy."""
    (text,) = leaf_texts(op.sharding or "", 1)
    return ctx.value("sdy.sharding_constraint", op.shape, flatten(operands), {"sharding": text})
