"""How arrays lie on several devices, in StableHLO and Shardy's dialect.

What GSPMD is told is a custom call with a sharding, as in HLO: see `host`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.graph.xla_op import XlaOp
from builder.sharding.text import leaf_texts
from lowering.mlir.flattening import flatten
from lowering.stablehlo.rules.registry import Value

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter

__all__ = ["sharding_constraint"]


def sharding_constraint(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """The call Sharding, where its sharding is in Shardy's words."""
    (text,) = leaf_texts(op.sharding or "", 1)
    return ctx.value("sdy.sharding_constraint", op.shape, flatten(operands), {"sharding": text})
