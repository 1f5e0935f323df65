"""Reshaping ops in HLO text."""

from __future__ import annotations

from builder import primitive_type as pt
from builder.bounded_sizes import is_bounded_broadcast, is_bounded_reshape
from builder.hlo_text.dynamic import at_bounds, with_sizes_of_broadcast, with_sizes_of_reshape
from builder.hlo_text.printer import Printer, Written, rule
from builder.hlo_text.values import array, widened
from builder.hlo_text.words import braces
from builder.shape import ArrayShape, intern_array
from builder.workarounds import is_of_two_bits, stride_within
from builder.xla_op import XlaOp


@rule("iota")
def _iota(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, f", iota_dimension={op.attributes['iota_dimension']}"


@rule("broadcast_in_dim")
def _broadcast_in_dim(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    assert isinstance(op.shape, ArrayShape)
    places = op.attributes["broadcast_dimensions"]
    operand = operands
    if is_bounded_broadcast(op):
        operands = at_bounds(printer, op, operand, source)
        source = source.at_bounds()
    kept = [
        index
        for index, place in enumerate(places)
        if source.dimensions[index] == op.shape.dimensions[place]
    ]
    if len(kept) < source.rank:
        # HLO's broadcast only adds dimensions: those that are stretched are taken away first.
        shape = intern_array(
            source.element_type,
            tuple(source.dimensions[i] for i in kept),
            tuple(source.dynamic_dimensions[i] for i in kept),
        )
        operands = printer.helper(op, "squeezed", shape, "reshape", operands)
    rest = f", dimensions={braces(places[i] for i in kept)}"
    if is_bounded_broadcast(op):
        whole = printer.helper(op, "whole", op.shape.at_bounds(), opcode, operands, rest)
        return with_sizes_of_broadcast(printer, op, whole, operand)
    return opcode, operands, rest


@rule("reshape")
def _reshape(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if is_bounded_reshape(op):
        return with_sizes_of_reshape(printer, op, operands)
    return opcode, operands, ""


@rule("transpose")
def _transpose(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, f", dimensions={braces(op.attributes['permutation'])}"


@rule("reverse")
def _reverse(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, f", dimensions={braces(op.attributes['dimensions'])}"


@rule("concatenate")
def _concatenate(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    rest = f", dimensions={{{op.attributes['dimension']}}}"
    if not is_of_two_bits(op):
        return opcode, operands, rest
    wide = pt.s8 if op.shape.element_type is pt.s2 else pt.u8
    joined = array(op).with_element_type(wide)
    values = widened(printer, op, wide)
    return "convert", printer.helper(op, "joined", joined, opcode, values, rest), ""


@rule("pad")
def _pad(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    dimensions = op.attributes["padding_config"].dimensions
    if not dimensions:
        # HLO's text has no form for the padding of a scalar, which changes nothing.
        return "copy", printer.operand(op.operands[0]), ""
    padding = "x".join(
        f"{d.edge_padding_low}_{d.edge_padding_high}_{d.interior_padding}" for d in dimensions
    )
    return opcode, operands, f", padding={padding}"


@rule("slice")
def _slice(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    attributes = op.attributes
    parts = [
        f"[{start}:{limit}:{stride_within(start, limit, stride)}]"
        for start, limit, stride in zip(
            attributes["start_indices"],
            attributes["limit_indices"],
            attributes["strides"],
            strict=True,
        )
    ]
    return opcode, operands, f", slice={{{', '.join(parts)}}}"
