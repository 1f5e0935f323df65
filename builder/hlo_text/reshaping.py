"""Rules for reshaping ops that HLO text can't always express in one instruction."""

from __future__ import annotations

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Instruction, Printer, rule
from builder.schema.syntax import braces
from builder.types import primitive_type as pt
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
    assert isinstance(op.shape, ArrayShape)
    if not op.shape.is_bounded:
        return _mhlo_dynamic_reshape(printer, op)
    # HLO's dynamic-reshape requires a size, and a scalar has none.
    return name if len(op.operands) > 1 else "reshape", operands, ""


def _mhlo_dynamic_reshape(printer: Printer, op: XlaOp) -> Instruction:
    """Print the custom call of XlaBuilder's MhloDynamicReshape, with the sizes as a vector."""
    row = intern_array(pt.s32, (1,))
    operand, *sizes = map(printer.operand, op.operands)
    rows = [printer.helper(op, "size", row, "reshape", size) for size in sizes]
    vector = intern_array(pt.s32, (len(rows),))
    joined = printer.helper(op, "sizes", vector, "concatenate", ", ".join(rows), ", dimensions={0}")
    return "custom-call", f"{operand}, {joined}", ', custom_call_target="mhlo.dynamic_reshape"'


@rule("dynamic_broadcast_in_dim")
def _dynamic_broadcast_in_dim(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    # A custom call, as XlaBuilder records it; XLA's converter to StableHLO reads it.
    places = ",".join(map(str, op.attributes["broadcast_dimensions"]))
    config = f'backend_config="{{broadcast_dimensions=[{places}]}}"'
    target = f'custom_call_target="mhlo.{op.opcode}"'
    return "custom-call", operands, f", {target}, {config}"
