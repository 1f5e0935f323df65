"""Reshaping ops that HLO text can't always express as recorded."""

from __future__ import annotations

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Printer, Written, rule
from builder.schema.kinds import braces
from builder.types.shape import ArrayShape, intern_array


@rule("broadcast_in_dim")
def _broadcast_in_dim(printer: Printer, op: XlaOp, name: str, operands: str) -> Written:
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    assert isinstance(op.shape, ArrayShape)
    places = op.attributes["broadcast_dimensions"]
    kept = [
        index
        for index, place in enumerate(places)
        if source.dimensions[index] == op.shape.dimensions[place]
    ]
    if len(kept) < source.rank:
        # HLO's broadcast only adds dimensions: those that are stretched are removed first.
        shape = intern_array(
            source.element_type,
            tuple(source.dimensions[i] for i in kept),
            tuple(source.dynamic_dimensions[i] for i in kept),
        )
        operands = printer.helper(op, "squeezed", shape, "reshape", operands)
    return name, operands, f", dimensions={braces(places[i] for i in kept)}"


@rule("pad")
def _pad(printer: Printer, op: XlaOp, name: str, operands: str) -> Written:
    if op.attributes["padding_config"].dimensions:
        return name, operands, printer.attributes_of(op)
    # The parser has no form for the padding of a scalar, which changes nothing.
    return "copy", printer.operand(op.operands[0]), ""


@rule("dynamic_reshape")
def _dynamic_reshape(printer: Printer, op: XlaOp, name: str, operands: str) -> Written:
    # HLO's has one size at least, and a scalar has none.
    return name if len(op.operands) > 1 else "reshape", operands, ""
