"""Ops that read and write at indices computed at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from jax import lax

from builder.graph.xla_op import XlaOp
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.reducers import applied_opcode, returns_second
from lowering.jax_interop.registry import Context, Step, Value, array_of, rule, with_derivative_of


@rule("dynamic_slice")
def dynamic_slice(ctx: Context, op: XlaOp) -> Step:
    sizes = op.attributes["slice_sizes"]

    # XLA clamps negative indices; jax by default counts them from the end.
    def step(operand: Value, *starts: Value) -> Value:
        return lax.dynamic_slice(operand, starts, sizes, allow_negative_indices=False)

    return step


@rule("dynamic_update_slice")
def dynamic_update_slice(ctx: Context, op: XlaOp) -> Step:
    def step(operand: Value, update: Value, *starts: Value) -> Value:
        return lax.dynamic_update_slice(operand, update, starts, allow_negative_indices=False)

    return step


def _vectors_last(rank: int, vector: int) -> Callable[[Value], Value]:
    """Return a function that moves the index vectors to the last dimension, as jax requires."""
    if vector == rank - 1:
        return lambda indices: indices
    if vector == rank:
        return lambda indices: lax.reshape(indices, (*indices.shape, 1))
    order = [*(d for d in range(rank) if d != vector), vector]
    return lambda indices: lax.transpose(indices, order)


def _without(dimensions: tuple[int, ...], vector: int) -> tuple[int, ...]:
    """Return dimensions of indices after the dimension of index vectors was moved to the end."""
    return tuple(d - 1 if d > vector else d for d in dimensions)


@rule("gather")
def gather(ctx: Context, op: XlaOp) -> Step:
    numbers = op.attributes["dimension_numbers"]
    rank, vector = array_of(op.operands[1].shape).rank, numbers.index_vector_dim
    dimension_numbers = lax.GatherDimensionNumbers(
        offset_dims=numbers.offset_dims,
        collapsed_slice_dims=numbers.collapsed_slice_dims,
        start_index_map=numbers.start_index_map,
        operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=_without(numbers.start_indices_batching_dims, vector),
    )
    step = partial(
        lax.gather,
        dimension_numbers=dimension_numbers,
        slice_sizes=op.attributes["slice_sizes"],
        indices_are_sorted=op.attributes.get("indices_are_sorted", False),
        mode=lax.GatherScatterMode.CLIP,  # as XLA does
    )
    if vector == rank - 1:
        return step
    prepare = _vectors_last(rank, vector)
    return lambda operand, indices: step(operand, prepare(indices))


_SCATTERS: Final[dict[str, Callable[..., Value]]] = {
    "add": lax.scatter_add,
    "multiply": lax.scatter_mul,
    "minimum": lax.scatter_min,
    "maximum": lax.scatter_max,
}


@rule("scatter")
def scatter(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    computation = attributes["to_apply"]
    opcode = applied_opcode(computation)
    function = lax.scatter if returns_second(computation) else _SCATTERS.get(opcode or "")
    if len(op.operands) != 3 or function is None:
        return pasted(ctx.computation, op)
    numbers = attributes["dimension_numbers"]
    rank, vector = array_of(op.operands[1].shape).rank, numbers.index_vector_dim
    step: Any = partial(
        function,
        dimension_numbers=lax.ScatterDimensionNumbers(
            update_window_dims=numbers.update_window_dims,
            inserted_window_dims=numbers.inserted_window_dims,
            scatter_dims_to_operand_dims=numbers.scatter_dims_to_operand_dims,
            operand_batching_dims=numbers.input_batching_dims,
            scatter_indices_batching_dims=_without(numbers.scatter_indices_batching_dims, vector),
        ),
        indices_are_sorted=attributes.get("indices_are_sorted", False),
        unique_indices=attributes.get("unique_indices", False),
        mode=lax.GatherScatterMode.FILL_OR_DROP,  # as XLA does
    )
    prepare = _vectors_last(rank, vector)
    if not numbers.scatter_dims_to_operand_dims:
        # XLA compiles these incorrectly, without the rewrites of `legalize`.
        return with_derivative_of(
            pasted(ctx.computation, op),
            lambda operand, indices, updates: step(operand, prepare(indices), updates),
        )
    overhang = _overhang(op)
    if not any(overhang):
        return lambda operand, indices, updates: step(operand, prepare(indices), updates)
    indexed = numbers.scatter_dims_to_operand_dims
    beyond = [overhang[d] for d in indexed]
    sizes = [array_of(op.shape).dimensions[d] for d in indexed]
    config = [(size, size, 0) for size in overhang]
    cropped = [(-size, -size, 0) for size in overhang]

    # StableHLO ignores each update element out of bounds, jax a window that is partly outside.
    def padded(operand: Value, indices: Value, updates: Value) -> Value:
        zero = operand.dtype.type(0)
        indices = _into_padded(prepare(indices), beyond, sizes)
        result = step(lax.pad(operand, zero, config), indices, updates)
        return lax.pad(result, zero, cropped)

    return padded


def _overhang(op: XlaOp) -> list[int]:
    """Return how far a window can be outside and still overlap the operand, by dimension."""
    numbers = op.attributes["dimension_numbers"]
    updates = array_of(op.operands[2].shape).dimensions
    rank = array_of(op.shape).rank
    hidden = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    overhang = [0] * rank
    windowed = [d for d in range(rank) if d not in hidden]
    for d, place in zip(windowed, numbers.update_window_dims, strict=True):
        if d in numbers.scatter_dims_to_operand_dims:
            overhang[d] = max(updates[place] - 1, 0)
    return overhang


def _into_padded(indices: Value, overhang: Sequence[int], sizes: Sequence[int]) -> Value:
    """Return indices into an operand that is padded by `overhang` on both sides.

    Indices far out of bounds are clamped first, so that the sums do not overflow.
    """
    info = np.iinfo(indices.dtype)

    def along(values: Sequence[int], dtype: Any) -> Value:
        return lax.broadcast_in_dim(np.array(values, dtype), indices.shape, (indices.ndim - 1,))

    least = [max(-size - 1, int(info.min)) for size in overhang]
    greatest = [min(size, int(info.max)) for size in sizes]
    dtype = indices.dtype
    indices = lax.clamp(along(least, dtype), indices, along(greatest, dtype))
    is_large = max(map(sum, zip(sizes, overhang, strict=True))) > np.iinfo(np.int32).max
    wide = np.int64 if is_large else np.int32
    return lax.add(lax.convert_element_type(indices, wide), along(overhang, wide))
