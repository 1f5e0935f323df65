"""Operations across devices, in HLO text."""

from __future__ import annotations

from builder.attributes import ReplicaGroups
from builder.hlo_text.printer import Printer, Written, rule
from builder.hlo_text.values import array, filled
from builder.hlo_text.words import braces
from builder.shape import ArrayShape, TupleShape, intern_array
from builder.workarounds import channel_of, explicit_groups, is_empty_exchange
from builder.xla_op import XlaOp


def _participants(op: XlaOp) -> str:
    """The rest of the line that says who takes part."""
    rest = ""
    channel = channel_of(op)
    if channel is not None:
        rest += f", channel_id={channel.handle}"
    groups: ReplicaGroups = explicit_groups(op)
    rest += f", replica_groups={braces(braces(group) for group in groups.groups)}"
    if op.attributes.get("use_global_device_ids"):
        rest += ", use_global_device_ids=true"
    return rest + _layout(op)


def _layout(op: XlaOp) -> str:
    return ", constrain_layout=true" if "shape_with_layout" in op.attributes else ""


@rule("all_reduce")
def _all_reduce(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    applied = printer.called(op.attributes["to_apply"])
    return opcode, operands, f"{_participants(op)}, to_apply={applied}"


def _parts(printer: Printer, op: XlaOp, opcode: str, rest: str) -> Written:
    """One instruction for each array, and zeros for what is empty."""
    shape = op.attributes.get("shape_with_layout", op.shape)
    parts = []
    for position, operand in enumerate(op.operands):
        one = shape.elements[position] if isinstance(shape, TupleShape) else shape
        assert isinstance(one, ArrayShape)  # inference has said so
        if is_empty_exchange(op, position):
            parts.append(filled(printer, op, one, 0))
        else:
            name = f"part{position}"
            parts.append(printer.helper(op, name, one, opcode, printer.operand(operand), rest))
    return "tuple" if isinstance(shape, TupleShape) else "copy", ", ".join(parts), ""


@rule("all_gather")
def _all_gather(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    rest = f"{_participants(op)}, dimensions={{{op.attributes['all_gather_dim']}}}"
    if any(is_empty_exchange(op, position) for position in range(len(op.operands))):
        return _parts(printer, op, opcode, rest)
    return opcode, operands, rest


@rule("reduce_scatter")
def _reduce_scatter(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    dimension = op.attributes["scatter_dimension"]
    applied = printer.called(op.attributes["to_apply"])
    rest = f"{_participants(op)}, dimensions={{{dimension}}}, to_apply={applied}"
    # One for each array: StableHLO, which this is read into, has no other.
    if len(op.operands) > 1 or is_empty_exchange(op, 0):
        return _parts(printer, op, opcode, rest)
    return opcode, operands, rest


@rule("all_to_all")
def _all_to_all(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    split, concat = op.attributes["split_dimension"], op.attributes["concat_dimension"]
    rest = f"{_participants(op)}, dimensions={{{split}}}"
    if split == concat:
        return opcode, operands, rest
    # HLO's leaves every block where it was cut off: the blocks are moved afterwards, as XlaBuilder
    # moves them.
    source = array(op.operands[0])
    count = op.attributes["split_count"]
    exchanged = printer.helper(op, "blocks", source, opcode, operands, rest)
    sizes = list(source.dimensions)
    sizes[split : split + 1] = [count, sizes[split] // count]
    apart = _like(source, sizes)
    cut = printer.helper(op, "cut", apart, "reshape", exchanged)
    order = [d for d in range(len(sizes)) if d != split]
    order.insert(concat, split)
    moved = _like(source, [sizes[d] for d in order])
    there = printer.helper(op, "moved", moved, "transpose", cut, f", dimensions={braces(order)}")
    return "reshape", there, ""


def _like(shape: ArrayShape, sizes: list[int]) -> ArrayShape:
    return intern_array(shape.element_type, tuple(sizes))


@rule("all_to_all_tuple")
def _all_to_all_tuple(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if len(op.operands) == 1:
        return "tuple", operands, ""  # XLA takes an all-to-all of one operand for the other form
    return "all-to-all", operands, _participants(op)


@rule("collective_permute")
def _collective_permute(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    channel = op.attributes["channel_handle"]
    rest = "" if channel is None else f", channel_id={channel.handle}"
    pairs = op.attributes["source_target_pairs"]
    return opcode, operands, f"{rest}, source_target_pairs={braces(braces(p) for p in pairs)}"


@rule("collective_broadcast")
def _collective_broadcast(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, _participants(op)
