"""Control flow, tuples and parameters in HLO text."""

from __future__ import annotations

from builder import primitive_type as pt
from builder.hlo_text.printer import Printer, Written, rule
from builder.xla_op import XlaOp


@rule("parameter")
def _parameter(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, str(op.attributes["number"]), ""


@rule("get_tuple_element")
def _get_tuple_element(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, f", index={op.attributes['index']}"


@rule("call")
def _call(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, f", to_apply={printer.called(op.attributes['to_apply'])}"


@rule("while")
def _while(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    condition = printer.called(op.attributes["condition"])
    body = printer.called(op.attributes["body"])
    return opcode, operands, f", condition={condition}, body={body}"


@rule("conditional")
def _conditional(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    branches = [printer.called(b) for b in op.attributes["branch_computations"]]
    if op.operands[0].shape.element_type is pt.pred:
        rest = f", true_computation={branches[0]}, false_computation={branches[1]}"
    else:
        rest = f", branch_computations={{{', '.join(branches)}}}"
    return opcode, operands, rest
