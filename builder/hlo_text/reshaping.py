"""Rules for reshaping ops that HLO text can't always express in one instruction."""

from __future__ import annotations

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Instruction, Printer, rule
from builder.schema.syntax import braces
from builder.types.shape import ArrayShape, intern_array


@rule("broadcast_in_dim")
def _broadcast_in_dim(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    assert isinstance(op.shape, ArrayShape)
    targets = op.attributes["broadcast_dimensions"]
    unchanged = [
        dimension
        for dimension, target in enumerate(targets)
        if source.dimensions[dimension] == op.shape.dimensions[target]
    ]
    if len(unchanged) < source.rank:
        # HLO's broadcast only adds dimensions, so those that are expanded are removed first.
        shape = intern_array(
            source.element_type,
            tuple(source.dimensions[d] for d in unchanged),
            tuple(source.dynamic_dimensions[d] for d in unchanged),
        )
        operands = printer.helper(op, "squeezed", shape, "reshape", operands)
    return name, operands, f", dimensions={braces(targets[d] for d in unchanged)}"


@rule("pad")
def _pad(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    if op.attributes["padding_config"].dimensions:
        return name, operands, printer.attributes_of(op)
    # The parser does not accept the padding of a scalar, which is the identity.
    return "copy", printer.operand(op.operands[0]), ""


@rule("dynamic_reshape")
def _dynamic_reshape(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    # HLO's dynamic-reshape requires a size, and a scalar has none.
    return name if len(op.operands) > 1 else "reshape", operands, ""
