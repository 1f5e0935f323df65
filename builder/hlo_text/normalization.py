"""Batch normalization in HLO text."""

from __future__ import annotations

from builder.hlo_text.printer import Printer, Written, rule
from builder.xla_op import XlaOp


@rule("batch_norm_training", "batch_norm_inference", "batch_norm_grad")
def _batch_norm(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    # As a double, which the parser rounds to the f32 that it is.
    epsilon, feature_index = op.attributes["epsilon"], op.attributes["feature_index"]
    return opcode, operands, f", epsilon={epsilon!r}, feature_index={feature_index}"
