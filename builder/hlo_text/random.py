"""Random numbers in HLO text."""

from __future__ import annotations

from builder.hlo_text.printer import Printer, Written, rule
from builder.xla_op import XlaOp


@rule("rng")
def _rng(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, f", distribution={op.attributes['distribution']}"


@rule("rng_bit_generator")
def _rng_bit_generator(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, f", algorithm={op.attributes['algorithm'].name.lower()}"
