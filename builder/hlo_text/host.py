"""The printer rule for `send` and `recv`, which are two instructions each in HLO text."""

from __future__ import annotations

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Instruction, Printer, rule
from builder.types import primitive_type as pt
from builder.types.shape import TOKEN_SHAPE, TupleShape, intern_array


@rule("send", "recv")
def _transfer(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Instruction:
    """Print the instruction that starts the transfer; return the one that waits for its end."""
    attributes = printer.attributes_of(op)
    # The data, the transfer number and a token; the operand of the "done" instruction alone.
    context = TupleShape((op.attributes["data_shape"], intern_array(pt.u32, ()), TOKEN_SHAPE))
    started = printer.helper(op, "start", context, opcode, operands, attributes)
    return f"{opcode}-done", started, attributes
