"""top_k of the smallest elements, which MHLO alone has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.graph.xla_op import XlaOp
from lowering.mlir.attributes import boolean, i64
from lowering.stablehlo.rules.registry import Value, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


def _is_of_smallest(op: XlaOp) -> bool:
    return not op.attributes["largest"]


@rule("top_k", when=_is_of_smallest)
def top_k(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"k": i64(op.attributes["k"]), "largest": boolean(False)}
    return ctx.value("mhlo.topk", op.shape, operands, attributes)
