"""Dot products with groups of unequal sizes in HLO text."""

from __future__ import annotations

from builder.hlo_text.contraction.dot_product import dimensions_text, narrow, precision_text
from builder.hlo_text.printer import Printer, Written, rule
from builder.hlo_text.words import braces
from builder.xla_op import XlaOp


@rule("ragged_dot")
def _ragged_dot(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    numbers = op.attributes["dimension_numbers"]
    rest = dimensions_text(numbers.dot_dimension_numbers)
    rest += f", lhs_ragged_dims={braces(numbers.lhs_ragged_dimensions)}"
    if numbers.rhs_group_dimensions:
        rest += f", rhs_group_dims={braces(numbers.rhs_group_dimensions)}"
    rest += precision_text(op.attributes["precision"])
    return narrow(printer, op, opcode, operands, rest)
