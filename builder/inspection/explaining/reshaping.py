"""Ops that move elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from builder.graph.xla_op import XlaOp
from builder.inspection.explaining.elements import Context, Outcome, Rule, moved, sizes_of


def _broadcast_in_dim(context: Context) -> Outcome:
    (source,) = context.operands
    sizes = sizes_of(context.op)
    places = [1] * len(sizes)
    for size, dimension in zip(
        source.shape, context.attributes["broadcast_dimensions"], strict=True
    ):
        places[dimension] = size
    return Outcome([moved(np.broadcast_to(source.reshape(places), sizes))])


def _concatenate(context: Context) -> Outcome:
    return Outcome([moved(np.concatenate(context.operands, context.attributes["dimension"]))])


def _pad(context: Context) -> Outcome:
    source, padding = context.operands
    dimensions = context.attributes["padding_config"].dimensions
    for axis, each in enumerate(dimensions):
        spread = source
        if each.interior_padding and source.shape[axis]:
            step = each.interior_padding + 1
            sizes = list(source.shape)
            sizes[axis] = (sizes[axis] - 1) * step + 1
            spread = np.full(sizes, padding, np.int64)
            spread[(slice(None),) * axis + (slice(None, None, step),)] = source
        low, high = each.edge_padding_low, each.edge_padding_high
        size = spread.shape[axis]
        spread = spread[(slice(None),) * axis + (slice(max(-low, 0), size - max(-high, 0)),)]
        widths = [(0, 0)] * source.ndim
        widths[axis] = (max(low, 0), max(high, 0))
        source = np.pad(spread, widths, constant_values=int(padding))
    return Outcome([moved(source)])


def transpose_before(op: XlaOp) -> XlaOp | None:
    """Return the transpose that a reshape with dimensions has recorded; None for other ops."""
    if op.opcode != "reshape" or op.operands[0].opcode != "transpose":
        return None
    return op.operands[0] if op.operands[0].source == op.source else None


def _reshape(context: Context) -> Outcome:
    source = context.operands[0]
    before = transpose_before(context.op)
    if before is not None:
        permutation = before.attributes["permutation"]
        source = source.transpose(permutation)
        context.note(f"reads the dimensions of the operand in the order {list(permutation)}")
    return Outcome([moved(source.reshape(sizes_of(context.op)))])


def _reverse(context: Context) -> Outcome:
    return Outcome([moved(np.flip(context.operands[0], context.attributes["dimensions"]))])


def _slice(context: Context) -> Outcome:
    attributes = context.attributes
    bounds = zip(
        attributes["start_indices"],
        attributes["limit_indices"],
        attributes["strides"],
        strict=True,
    )
    return Outcome([moved(context.operands[0][tuple(slice(*bound) for bound in bounds)])])


def _transpose(context: Context) -> Outcome:
    return Outcome([moved(context.operands[0].transpose(context.attributes["permutation"]))])


def _starts(context: Context, first: int, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the part of operand 0 that a dynamic op reads or writes."""
    bounds = []
    for axis, (size, length) in enumerate(zip(context.operands[0].shape, sizes, strict=True)):
        last = size - length
        start = int(context.data(first + axis, np.array(min(1, last))))
        begin = min(max(start, 0), last)
        if begin != start:
            context.note(f"the start index {start} of dimension {axis} is clamped to {begin}")
        bounds.append(slice(begin, begin + length))
    return tuple(bounds)


def _dynamic_slice(context: Context) -> Outcome:
    source = context.operands[0]
    return Outcome([moved(source[_starts(context, 1, tuple(context.attributes["slice_sizes"]))])])


def _dynamic_update_slice(context: Context) -> Outcome:
    source, update = context.operands[0].copy(), context.operands[1]
    source[_starts(context, 2, update.shape)] = update
    return Outcome([moved(source)])


RULES: Final[Mapping[str, Rule]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "pad": _pad,
    "reshape": _reshape,
    "reverse": _reverse,
    "slice": _slice,
    "transpose": _transpose,
}
