"""Ops that read and write at indices computed at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp, constant_value
from builder.types.shape import ArrayShape
from lowering.jaxlib_api.lazy_jax import lax
from lowering.ops.derivatives import with_derivative_of
from lowering.ops.dynamic import size_numbers
from lowering.ops.importing import failure
from lowering.ops.reduction import applied_opcode, returns_second
from lowering.ops.registry import Context, Step, Value, array_of, importer, jax_rule

if TYPE_CHECKING:
    from lowering.importer.scope import Scope


@jax_rule("dynamic_slice")
def jax_dynamic_slice(ctx: Context, op: XlaOp) -> Step:
    sizes = op.attributes["slice_sizes"]

    # XLA clamps negative indices; jax by default counts them from the end.
    def step(operand: Value, *starts: Value) -> Value:
        return lax.dynamic_slice(operand, starts, sizes, allow_negative_indices=False)

    return step


@jax_rule("dynamic_update_slice")
def jax_dynamic_update_slice(ctx: Context, op: XlaOp) -> Step:
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


@importer("stablehlo.dynamic_gather")
def import_dynamic_gather(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a gather of slices of sizes at run time: a gather if they are constant."""
    operand, indices, sizes = operands
    if scope.result_array(operation).is_static:
        slice_sizes = constant_value(sizes)
        if slice_sizes is not None:
            named = scope.arguments("dynamic_gather", operation, "shape")
            return xb.gather(operand, indices, slice_sizes=slice_sizes.tolist(), **named)
        scope.tables.need_sizes()  # the operand may follow from them
    return scope.by_schema("dynamic_gather", operation, operands)


@jax_rule("dynamic_gather")
def jax_dynamic_gather(ctx: Context, op: XlaOp) -> Step:
    step = _gather_step(op)
    return lambda operand, indices, sizes: step(operand, indices, slice_sizes=size_numbers(sizes))


@jax_rule("gather")
def jax_gather(ctx: Context, op: XlaOp) -> Step:
    return partial(_gather_step(op), slice_sizes=op.attributes["slice_sizes"])


def _gather_step(op: XlaOp) -> Callable[..., Value]:
    """Return jax's function for a gather, without the sizes of the slices."""
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
        indices_are_sorted=op.attributes.get("indices_are_sorted", False),
        mode=lax.GatherScatterMode.CLIP,  # as XLA does
    )
    if vector == rank - 1:
        return step
    prepare = _vectors_last(rank, vector)
    return lambda operand, indices, slice_sizes: step(
        operand, prepare(indices), slice_sizes=slice_sizes
    )


@importer("stablehlo.torch_index_select")
def import_torch_index_select(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> XlaOp:
    """Record torch_index_select as a gather of slices whose size is 1 along `dim`."""
    dim, batch = (scope.attribute(operation, name) for name in ("dim", "batch_dims"))
    source, index = (operand.shape for operand in operands)
    assert isinstance(source, ArrayShape)  # verified by MLIR
    assert isinstance(index, ArrayShape)
    if not 0 <= batch <= dim < source.rank or batch > index.rank:
        raise failure(
            operation, "dim or batch_dims is out of range", got=f"dim {dim} and batch_dims {batch}"
        )
    batching, extra = tuple(range(batch)), index.rank - batch
    numbers = xb.GatherDimensionNumbers(
        (*range(batch, dim), *range(dim + extra, source.rank - 1 + extra)),
        (dim,),
        (dim,),
        index.rank,
        batching,
        batching,
    )
    sizes = [1 if d in (*batching, dim) else size for d, size in enumerate(source.dimensions)]
    return xb.gather(operands[0], operands[1], numbers, sizes)


_SCATTERS: Final[dict[str, Callable[[], Callable[..., Value] | None]]] = {
    "add": lambda: lax.scatter_add,
    "multiply": lambda: lax.scatter_mul,
    "minimum": lambda: lax.scatter_min,
    "maximum": lambda: lax.scatter_max,
}
"""By the reducer's opcode, a function that returns jax's scatter."""


@jax_rule("scatter")
def jax_scatter(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    computation = attributes["to_apply"]
    known = _SCATTERS.get(applied_opcode(computation) or "", lambda: None)
    function = lax.scatter if returns_second(computation) else known()
    if len(op.operands) != 3 or function is None:
        return ctx.pasted(op)
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
            ctx.pasted(op),
            lambda operand, indices, updates: step(operand, prepare(indices), updates),
        )
    overhang = _overhang(op)
    if not any(overhang):
        return lambda operand, indices, updates: step(operand, prepare(indices), updates)
    indexed = numbers.scatter_dims_to_operand_dims
    beyond = [overhang[d] for d in indexed]
    config = [(size, size, 0) for size in overhang]
    cropped = [(-size, -size, 0) for size in overhang]

    # StableHLO ignores each update element out of bounds, jax a window that is partly outside.
    def padded(operand: Value, indices: Value, updates: Value) -> Value:
        zero = operand.dtype.type(0)
        sizes = [operand.shape[d] for d in indexed]
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
