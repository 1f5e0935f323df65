"""Ops that move elements, gathers and scatters among them.

StableHLO specification: gather, scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from builder.graph.xla_op import XlaOp, is_parameter
from builder.inspection.explaining.elements import (
    Context,
    Join,
    Outcome,
    drawn,
    join_of,
    joined,
    moved,
    one_operand,
    sizes_of,
)


@drawn("broadcast_in_dim")
def _broadcast_in_dim(context: Context) -> Outcome:
    (source,) = context.operands
    sizes = sizes_of(context.op)
    places = [1] * len(sizes)
    for size, dimension in zip(
        source.shape, context.attributes["broadcast_dimensions"], strict=True
    ):
        places[dimension] = size
    return Outcome([moved(np.broadcast_to(source.reshape(places), sizes))])


@drawn("concatenate")
def _concatenate(context: Context) -> Outcome:
    return Outcome([moved(np.concatenate(context.operands, context.attributes["dimension"]))])


@drawn("pad")
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


@drawn("reshape")
def _reshape(context: Context) -> Outcome:
    source = context.operands[0]
    before = transpose_before(context.op)
    if before is not None:
        permutation = before.attributes["permutation"]
        source = source.transpose(permutation)
        context.note(f"reads the dimensions of the operand in the order {list(permutation)}")
    return Outcome([moved(source.reshape(sizes_of(context.op)))])


@drawn("reverse")
def _reverse(context: Context) -> Outcome:
    return Outcome([moved(np.flip(context.operands[0], context.attributes["dimensions"]))])


@drawn("slice")
def _slice(context: Context) -> Outcome:
    attributes = context.attributes
    bounds = zip(
        attributes["start_indices"],
        attributes["limit_indices"],
        attributes["strides"],
        strict=True,
    )
    return Outcome([moved(context.operands[0][tuple(slice(*bound) for bound in bounds)])])


@drawn("transpose")
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


@drawn("dynamic_slice")
def _dynamic_slice(context: Context) -> Outcome:
    source = context.operands[0]
    return Outcome([moved(source[_starts(context, 1, tuple(context.attributes["slice_sizes"]))])])


@drawn("dynamic_update_slice")
def _dynamic_update_slice(context: Context) -> Outcome:
    source, update = context.operands[0].copy(), context.operands[1]
    source[_starts(context, 2, update.shape)] = update
    return Outcome([moved(source)])


_Index = tuple[int, ...]


def example_indices(
    shape: Sequence[int], vector_dim: int, limits: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Return indices that are spread over their ranges.

    Args:
        shape: the shape of the indices.
        vector_dim: the dimension of the components of an index; the rank for none.
        limits: the last valid index of each component.
    """
    indices = np.zeros(tuple(shape), np.int64)
    for count, index in enumerate(np.ndindex(*shape)):
        component = index[vector_dim] if vector_dim < len(index) else 0
        limit = limits[component] if component < len(limits) else 0
        indices[index] = (5 * count + 2) % (limit + 1)
    return indices


def _vector(indices: npt.NDArray[Any], batch: _Index, vector_dim: int) -> list[int]:
    """Return the components of the index at a position of the indices."""
    if vector_dim == indices.ndim:
        return [int(indices[batch])]
    at: tuple[Any, ...] = (*batch[:vector_dim], slice(None), *batch[vector_dim:])
    return [int(component) for component in indices[at]]


@drawn("gather")
def _gather(context: Context) -> Outcome:
    source = context.operands[0]
    numbers, widths = context.attributes["dimension_numbers"], context.attributes["slice_sizes"]
    starts_map, vector_dim = numbers.start_index_map, numbers.index_vector_dim
    limits = [source.shape[d] - widths[d] for d in starts_map]
    shape = context.operands[1].shape
    indices = context.data(1, example_indices(shape, vector_dim, limits))
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    kept = [d for d in range(source.ndim) if d not in dropped]
    pairs = list(
        zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    )

    def terms(index: _Index) -> list[tuple[int, ...]]:
        batch = tuple(i for d, i in enumerate(index) if d not in numbers.offset_dims)
        place = [0] * source.ndim
        for d, start, last in zip(
            starts_map, _vector(indices, batch, vector_dim), limits, strict=True
        ):
            place[d] = min(max(start, 0), last)
            if place[d] != start:
                context.note(f"the index {start} of dimension {d} is clamped to {place[d]}")
        for d, of in pairs:
            place[d] = batch[of - (of > vector_dim)]
        for d, offset_dim in zip(kept, numbers.offset_dims, strict=True):
            place[d] += index[offset_dim]
        return [(int(source[tuple(place)]),)]

    return Outcome([joined(sizes_of(context.op), terms)])


@drawn("scatter")
def _scatter(context: Context) -> Outcome:
    one_operand(context.op, (len(context.operands) - 1) // 2)
    source, _, updates = context.operands
    numbers = context.attributes["dimension_numbers"]
    vector_dim = numbers.index_vector_dim
    dropped = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    kept = [d for d in range(source.ndim) if d not in dropped]
    window_dims = numbers.update_window_dims
    widths = [1] * source.ndim
    for d, update_dim in zip(kept, window_dims, strict=True):
        widths[d] = updates.shape[update_dim]
    targets = numbers.scatter_dims_to_operand_dims
    limits = [source.shape[d] - widths[d] for d in targets]
    shape = context.operands[1].shape
    indices = context.data(1, example_indices(shape, vector_dim, limits))
    pairs = list(
        zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    )
    values = joined(source.shape, lambda index: [(int(source[index]),)])
    join, replaces = _update_of(context)
    for index in np.ndindex(*updates.shape):
        batch = tuple(i for d, i in enumerate(index) if d not in window_dims)
        place = [0] * source.ndim
        for d, start in zip(targets, _vector(indices, batch, vector_dim), strict=True):
            place[d] = start
        for d, of in pairs:
            place[d] = batch[of - (of > vector_dim)]
        for d, update_dim in zip(kept, window_dims, strict=True):
            place[d] += index[update_dim]
        at = tuple(place)
        if not all(0 <= i < size for i, size in zip(at, source.shape, strict=True)):
            context.note("updates outside of the operand are dropped")
            continue
        term = (int(updates[index]),)
        values[at] = (term,) if replaces else (*values[at], term)
    return Outcome([values], join)


def _update_of(context: Context) -> tuple[Join, bool]:
    """Return how updates are joined with elements, and whether they replace them."""
    computation = context.attributes["to_apply"]
    root = computation.root
    replaces = is_parameter(root) and root.attributes["number"] == 1
    if replaces:
        context.note(
            "an update replaces the element; of several for one element, the last is drawn"
        )
    return join_of(computation), replaces
