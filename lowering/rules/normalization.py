"""Batch normalization in StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from builder.xla_op import XlaOp
from lowering.mlir_attributes import i64
from lowering.rules.registry import Value, direct, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter


@direct("batch_norm_inference")
def batch_norm(attributes: Mapping[str, Any]) -> dict[str, str]:
    bits = np.float32(attributes["epsilon"]).view(np.uint32)
    return {
        "epsilon": f"0x{bits:08X} : f32",
        "feature_index": i64(attributes["feature_index"]),
    }


@rule("batch_norm_training")
@rule("batch_norm_grad")
def batch_norm_of_several_results(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = batch_norm(op.attributes)
    return ctx.value(f"stablehlo.{op.opcode}", op.shape, operands, attributes)
