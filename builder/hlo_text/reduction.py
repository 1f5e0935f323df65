"""Reductions in HLO text."""

from __future__ import annotations

from builder.hlo_text.printer import Printer, Written, applied_along, rule
from builder.xla_op import XlaOp


@rule("reduce")
def _reduce(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, applied_along(printer, op)
