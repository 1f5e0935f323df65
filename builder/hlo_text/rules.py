"""Printer rules for opcodes whose instructions do not follow from the schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Instruction, Printer, rule
from builder.schema import SCHEMAS
from builder.schema.syntax import braces
from builder.types import primitive_type as pt
from builder.types.constant import literal_text, splat_value
from builder.types.shape import TOKEN_SHAPE, UNBOUNDED, ArrayShape, TupleShape, intern_array


@rule("all_to_all")
def _all_to_all(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    split, concat = op.attributes["split_dimension"], op.attributes["concat_dimension"]
    attributes = printer.attributes_of(op)
    if split == concat:
        return name, operands, attributes
    # HLO concatenates along the dimension that it splits, so the blocks are transposed afterwards,
    # as in XLA's XlaBuilder.
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    count = op.attributes["split_count"]
    text = printer.helper(op, "blocks", source, name, operands, attributes)
    sizes = list(source.dimensions)
    size = sizes[split]
    sizes[split : split + 1] = [count, size if size == UNBOUNDED else size // count]
    text = printer.helper(op, "split", _with_sizes(source, sizes), "reshape", text)
    order = [d for d in range(len(sizes)) if d != split]
    order.insert(concat, split)
    shape = _with_sizes(source, [sizes[d] for d in order])
    dimensions = f", dimensions={braces(order)}"
    return "reshape", printer.helper(op, "moved", shape, "transpose", text, dimensions), ""


def _with_sizes(shape: ArrayShape, sizes: Sequence[int]) -> ArrayShape:
    return intern_array(shape.element_type, tuple(sizes), tuple(n == UNBOUNDED for n in sizes))


@rule("constant")
def _constant(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    array: np.ndarray[Any, Any] = op.attributes["value"]
    assert isinstance(op.shape, ArrayShape)
    value = splat_value(array)
    if value is None:
        return _literal(printer, op, op.shape, array)
    # A broadcast scalar, because a literal has every element.
    scalar = intern_array(op.shape.element_type, ())
    reference = printer.helper(op, "value", scalar, *_literal(printer, op, scalar, value))
    return "broadcast", reference, ", dimensions={}"


def _literal(
    printer: Printer, op: XlaOp, shape: ArrayShape, array: np.ndarray[Any, Any]
) -> Instruction:
    element_type = shape.element_type
    if not element_type.is_complex or not np.isnan(array).any():
        return "constant", literal_text(array, element_type), ""
    # XLA's parser makes both parts NaN if the real part is, and drops the payload of the imaginary
    # part. So real and imaginary parts are separate constants.
    half = shape.with_element_type(element_type.real_type)
    parts = [
        printer.helper(op, part, half, "constant", literal_text(values, half.element_type))
        for part, values in (("real", array.real), ("imag", array.imag))
    ]
    return "complex", ", ".join(parts), ""


@rule("parameter")
def _parameter(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    return name, str(op.attributes["number"]), printer.attributes_of(op)


@rule("conditional")
def _conditional(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    branches = [printer.called(b) for b in op.attributes["branch_computations"]]
    if op.operands[0].shape.element_type is pt.pred:
        attributes = f", true_computation={branches[0]}, false_computation={branches[1]}"
    else:
        attributes = f", branch_computations={{{', '.join(branches)}}}"
    return name, operands, attributes


@rule("send", "recv")
def _transfer(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Instruction:
    """Print the instruction that starts the transfer; return the one that waits for its end."""
    attributes = printer.attributes_of(op)
    # The data, the transfer number and a token; the operand of the "done" instruction alone.
    context = TupleShape((op.attributes["data_shape"], intern_array(pt.u32, ()), TOKEN_SHAPE))
    started = printer.helper(op, "start", context, opcode, operands, attributes)
    return f"{opcode}-done", started, attributes


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


@rule("dynamic_gather", "dynamic_iota", "dynamic_pad", "real_dynamic_slice")
def _stablehlo_call(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    # HLO has no instruction for it. The importer reads the custom call.
    schema = SCHEMAS[op.opcode]
    target = f', custom_call_target="{schema.stablehlo}"'
    attributes = [
        f"{attribute.stablehlo or attribute.name} = {attribute.kind.stablehlo(value)}"
        for attribute in schema.value_attributes
        if (value := attribute.value(op.attributes)) is not False
    ]
    config = f', backend_config="{{{", ".join(attributes)}}}"' if attributes else ""
    return "custom-call", operands, target + config


@rule("dynamic_broadcast_in_dim")
def _dynamic_broadcast_in_dim(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    # A custom call, as XlaBuilder records it; XLA's converter to StableHLO reads it.
    places = ",".join(map(str, op.attributes["broadcast_dimensions"]))
    config = f'backend_config="{{broadcast_dimensions=[{places}]}}"'
    target = f'custom_call_target="mhlo.{op.opcode}"'
    return "custom-call", operands, f", {target}, {config}"
