"""Parameters, composites and conditionals in HLO text."""

from __future__ import annotations

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Printer, Written, frontend_attributes, rule
from builder.types import primitive_type as pt


@rule("parameter")
def _parameter(printer: Printer, op: XlaOp, name: str, operands: str) -> Written:
    return name, str(op.attributes["number"]), ""


@rule("composite")
def _composite(printer: Printer, op: XlaOp, name: str, operands: str) -> Written:
    to_apply = printer.called(op.attributes["to_apply"])
    return name, operands, f", to_apply={to_apply}, is_composite=true"


@frontend_attributes("composite")
def _composite_attributes(op: XlaOp) -> dict[str, str]:
    return {
        "composite.attributes": op.attributes["composite_attributes"],
        "composite.name": op.attributes["name"],
        "composite.version": str(op.attributes["version"]),
    }


@rule("conditional")
def _conditional(printer: Printer, op: XlaOp, name: str, operands: str) -> Written:
    branches = [printer.called(b) for b in op.attributes["branch_computations"]]
    if op.operands[0].shape.element_type is pt.pred:
        rest = f", true_computation={branches[0]}, false_computation={branches[1]}"
    else:
        rest = f", branch_computations={{{', '.join(branches)}}}"
    return name, operands, rest
