"""Printer rules for reshaping ops that HLO text can't always express in one instruction."""

from __future__ import annotations

from collections.abc import Iterable

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Instruction, Printer, rule
from builder.schema.syntax import braces
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, intern_array


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


def _joined(printer: Printer, op: XlaOp, sizes: Iterable[str]) -> str:
    """Print instructions that join scalars to a vector; return the reference to the vector."""
    row = intern_array(pt.s32, (1,))
    rows = [printer.helper(op, "size", row, "reshape", size) for size in sizes]
    vector = intern_array(pt.s32, (len(rows),))
    return printer.helper(op, "sizes", vector, "concatenate", ", ".join(rows), ", dimensions={0}")


def _mhlo_dynamic_reshape(printer: Printer, op: XlaOp) -> Instruction:
    """Return the custom call that XlaBuilder's MhloDynamicReshape records."""
    operand, *sizes = map(printer.operand, op.operands)
    operands = f"{operand}, {_joined(printer, op, sizes)}"
    return "custom-call", operands, ', custom_call_target="mhlo.dynamic_reshape"'


@rule("slice")
def _slice(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    starts, limits, strides = (
        op.attributes[n] for n in ("start_indices", "limit_indices", "strides")
    )
    if UNBOUNDED not in limits:
        return name, operands, printer.attributes_of(op)
    # The limits of HLO's slice are numbers. XLA's converter to StableHLO reads the custom call.
    scalar, vector = intern_array(pt.s32, ()), intern_array(pt.s32, (len(limits),))
    sizes = []
    for dimension, limit in enumerate(limits):
        opcode, operand, rest = "constant", str(limit), ""
        if limit == UNBOUNDED:
            opcode, operand = "get-dimension-size", operands
            rest = f", dimensions={{{dimension}}}"
        sizes.append(printer.helper(op, "limit", scalar, opcode, operand, rest))
    first, step = (
        printer.helper(op, part, vector, "constant", braces(values))
        for part, values in (("starts", starts), ("strides", strides))
    )
    operands = ", ".join([operands, first, _joined(printer, op, sizes), step])
    return "custom-call", operands, ', custom_call_target="mhlo.real_dynamic_slice"'


@rule("dynamic_broadcast_in_dim")
def _dynamic_broadcast_in_dim(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    # A custom call, as XlaBuilder records it; XLA's converter to StableHLO reads it.
    places = ",".join(map(str, op.attributes["broadcast_dimensions"]))
    config = f'backend_config="{{broadcast_dimensions=[{places}]}}"'
    target = f'custom_call_target="mhlo.{op.opcode}"'
    return "custom-call", operands, f", {target}, {config}"
