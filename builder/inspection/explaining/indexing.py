"""Gathers and scatters.

StableHLO specification: gather, scatter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from builder.inspection.explaining.elements import (
    Context,
    Join,
    Outcome,
    Rule,
    join_of,
    joined,
    one_operand,
    sizes_of,
)

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
    replaces = root.opcode == "parameter" and root.attributes["number"] == 1
    if replaces:
        context.note(
            "an update replaces the element; of several for one element, the last is drawn"
        )
    return join_of(computation), replaces


RULES: Final[Mapping[str, Rule]] = {"gather": _gather, "scatter": _scatter}
