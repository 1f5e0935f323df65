"""The printer rules for parameters and conditionals in HLO text."""

from __future__ import annotations

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Instruction, Printer, rule
from builder.types import primitive_type as pt


@rule("parameter")
def _parameter(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    return name, str(op.attributes["number"]), printer.attributes_of(op)


@rule("conditional")
def _conditional(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    branches = [printer.called(b) for b in op.attributes["branch_computations"]]
    if op.operands[0].shape.element_type is pt.pred:
        attributes = f", true_computation={branches[0]}, false_computation={branches[1]}"
    else:
        attributes = f", branch_computations={{{', '.join(branches)}}}"
    return name, operands, attributes
