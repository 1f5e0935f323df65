"""Control flow, tuples and parameters in HLO text."""

from __future__ import annotations

from builder import primitive_type as pt
from builder.hlo_text.printer import Printer, Written, frontend_attributes, rule
from builder.hlo_text.values import filled
from builder.hlo_text.words import braces
from builder.shape import ArrayShape, Shape, TupleShape
from builder.workarounds import is_empty_scan
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


@rule("composite")
def _composite(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    to_apply = printer.called(op.attributes["to_apply"])
    return "call", operands, f", to_apply={to_apply}, is_composite=true"


@frontend_attributes("composite")
def _composite_attributes(op: XlaOp) -> dict[str, str]:
    return {
        "composite.attributes": op.attributes["composite_attributes"],
        "composite.name": op.attributes["name"],
        "composite.version": str(op.attributes["version"]),
    }


@rule("scan")
def _scan(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    carries = op.attributes["num_carries"]
    if is_empty_scan(op):
        assert isinstance(op.shape, TupleShape)  # inference has said so
        outputs = [_empty(printer, op, o) for o in op.shape.elements[: -carries or None]]
        inits = op.operands[len(op.operands) - carries :]
        return "tuple", ", ".join([*outputs, *map(printer.operand, inits)]), ""
    rest = f", dimensions={braces([op.attributes['scan_dimension']])}"
    if op.attributes["is_reverse"]:
        rest += ", is_reverse=true"
    rest += f", num_carries={carries}"
    associative = op.attributes["is_associative"]
    if associative is not None:
        rest += f", is_associative={str(associative).lower()}"
    return opcode, operands, f"{rest}, to_apply={printer.called(op.attributes['to_apply'])}"


def _empty(printer: Printer, op: XlaOp, shape: Shape) -> str:
    """An array without elements."""
    assert isinstance(shape, ArrayShape)
    return filled(printer, op, shape, 0)


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
