"""Contractions in HLO text."""

from __future__ import annotations

from builder import primitive_type as pt
from builder.attributes import Precision
from builder.hlo_text.printer import Printer, Written, rule
from builder.hlo_text.values import array, widened
from builder.hlo_text.words import braces
from builder.workarounds import is_narrow_dot
from builder.xla_op import XlaOp


@rule("dot_general")
def _dot_general(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    numbers = op.attributes["dimension_numbers"]
    rest = ""
    for side in ("lhs", "rhs"):
        batch = getattr(numbers, f"{side}_batch_dimensions")
        if batch:
            rest += f", {side}_batch_dims={braces(batch)}"
        contracting = getattr(numbers, f"{side}_contracting_dimensions")
        rest += f", {side}_contracting_dims={braces(contracting)}"
    precision = op.attributes["precision"]
    if any(p is not Precision.DEFAULT for p in precision):
        rest += f", operand_precision={braces(p.name.lower() for p in precision)}"
    algorithm = op.attributes["algorithm"]
    if algorithm is not None:
        rest += f", algorithm={algorithm.value}"
    if not is_narrow_dot(op):
        return opcode, operands, rest
    # Sums of integers in 8 bits end in the same bits as those in 2 or 4.
    source, result = op.operands[0].shape.element_type, op.shape.element_type
    wide = result if result.bits >= 8 else (pt.s8 if source.is_signed else pt.u8)
    values = widened(printer, op, wide)
    if wide is result:
        return opcode, values, rest
    shape = array(op).with_element_type(wide)
    return "convert", printer.helper(op, "product", shape, opcode, values, rest), ""
