"""The lowering rule for top_k of the smallest elements, which needs an MHLO operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.graph.xla_op import XlaOp
from lowering.mlir.attributes import boolean, i64
from lowering.stablehlo.rules.registry import Value, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


@rule("top_k", when=lambda op: not op.attributes["largest"])
def top_k(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"k": i64(op.attributes["k"]), "largest": boolean(False)}
    return ctx.value("mhlo.topk", op.shape, operands, attributes)
