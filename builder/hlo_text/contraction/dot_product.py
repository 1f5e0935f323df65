"""Dot products in HLO text."""

from __future__ import annotations

from builder import primitive_type as pt
from builder.attributes import DotDimensionNumbers, Precision
from builder.hlo_text.printer import Printer, Written, rule
from builder.hlo_text.values import array, wide as wide_value
from builder.hlo_text.words import braces
from builder.workarounds import is_narrow_contraction
from builder.xla_op import XlaOp


def dimensions_text(numbers: DotDimensionNumbers) -> str:
    """The dimension numbers; batch dimensions where there are any."""
    text = ""
    for side in ("lhs", "rhs"):
        batch = getattr(numbers, f"{side}_batch_dimensions")
        if batch:
            text += f", {side}_batch_dims={braces(batch)}"
        contracting = getattr(numbers, f"{side}_contracting_dimensions")
        text += f", {side}_contracting_dims={braces(contracting)}"
    return text


def precision_text(precision: tuple[Precision, Precision]) -> str:
    """The precision of both operands, where it is not the default."""
    if all(p is Precision.DEFAULT for p in precision):
        return ""
    return f", operand_precision={braces(p.name.lower() for p in precision)}"


@rule("dot_general")
def _dot_general(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    rest = dimensions_text(op.attributes["dimension_numbers"])
    rest += precision_text(op.attributes["precision"])
    algorithm = op.attributes["algorithm"]
    if algorithm is not None:
        rest += f", algorithm={algorithm.value}"
    return narrow(printer, op, opcode, operands, rest)


def narrow(printer: Printer, op: XlaOp, opcode: str, operands: str, rest: str) -> Written:
    """A contraction, in a wider type where XLA has none of so few bits.

    Sums of integers in 8 bits end in the same bits as those in 2 or 4.
    """
    if not is_narrow_contraction(op):
        return opcode, operands, rest
    source, result = op.operands[0].shape.element_type, op.shape.element_type
    wide = result if result.bits >= 8 else (pt.s8 if source.is_signed else pt.u8)
    values = ", ".join(
        wide_value(printer, op, printer.operand(o), array(o), wide) for o in op.operands[:2]
    )
    values = ", ".join([values, *(printer.operand(o) for o in op.operands[2:])])
    if wide is result:
        return opcode, values, rest
    shape = array(op).with_element_type(wide)
    return "convert", printer.helper(op, "product", shape, opcode, values, rest), ""
