"""Collective ops. jax evaluates them along an axis of jax.shard_map or jax.vmap."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape, TupleShape, intern_array
from lowering.jaxlib_api.lazy_jax import lax
from lowering.mlir.attributes import i64, i64_array
from lowering.ops.emitting import filled, need_orders
from lowering.ops.importing import failure
from lowering.ops.reduction import applied_opcode
from lowering.ops.registry import (
    REFUSED,
    Context,
    Imported,
    Step,
    Value,
    array_of,
    importer,
    jax_rule,
    refusal,
    stablehlo_check,
    stablehlo_rule,
)

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


@stablehlo_check("all_reduce", "all_to_all", "collective_broadcast")
def check_layout(op: XlaOp) -> None:
    """Check that the layout of the result is an order of dimensions."""
    shape = op.attributes.get("shape_with_layout")
    if shape is not None:
        need_orders(op, shape)


def _is_empty(operand: XlaOp, dimension: int) -> bool:
    """Return whether an operand has size 0 along a dimension.

    StableHLO refuses to gather or scatter along such a dimension.
    """
    return array_of(operand.shape).dimensions[dimension] == 0


def _for_each_operand(
    ctx: Emitter,
    op: XlaOp,
    operands: list[Value],
    dimension: int,
    emit: Callable[[ArrayShape, Value], Value],
) -> Value:
    """Emit an operation for each operand.

    For an operand that is empty along `dimension`, emit the empty result as a constant.
    """
    shapes = op.shape.elements if isinstance(op.shape, TupleShape) else (op.shape,)
    values = [
        filled(ctx, array_of(shape), 0)
        if _is_empty(source, dimension)
        else emit(array_of(shape), operand)
        for source, shape, operand in zip(op.operands, shapes, operands, strict=True)
    ]
    return values if isinstance(op.shape, TupleShape) else values[0]


def _size(shape: Any, dimension: int) -> int:
    assert isinstance(shape, ArrayShape)  # verified by MLIR
    return shape.dimensions[dimension]


def _shard_count(scope: Scope, operation: ir.Operation, shard: int, total: int) -> int:
    """Return the number of shards, which is not an attribute in StableHLO."""
    if shard:
        return total // shard
    groups = scope.attributes("all_reduce", operation)["replica_groups"].groups
    if not groups:
        raise failure(
            operation,
            "replica_groups must not be empty, because empty arrays do not imply the shard count",
        )
    return len(groups[0])


def _axis(ctx: Context, op: XlaOp, *, ordered: bool = True) -> str:
    """Return the axis along which the replicas are.

    Raises:
        LoweringError: there is none; the replicas are in several groups, or in another order where
            it matters.
    """
    if ctx.axis is None:
        raise refusal(
            op,
            "its replicas must be the positions along an axis of jax",
            "pass the name of the axis, to_jax(computation, axis='i'), and call the function in "
            "jax.shard_map or jax.vmap with this axis",
        )
    groups = getattr(op.attributes.get("replica_groups"), "groups", ())
    numbers = list(groups[0]) if groups else []
    if len(groups) > 1 or (numbers if ordered else sorted(numbers)) != list(range(len(numbers))):
        raise refusal(
            op,
            "the replica groups must be one group in ascending order",
            "use one group, or a mesh with an axis for each group in jax.shard_map",
            groups,
        )
    return ctx.axis


def _each(op: XlaOp, function: Callable[[Value], Value]) -> Step:
    """Return a step that applies a function to each operand."""
    if op.shape.is_tuple:
        return lambda *operands: tuple(map(function, operands))
    return function


REFUSED["partition_id"] = (
    "jax partitions programs itself",
    "use replica_id, and to_jax with an axis of jax.shard_map",
)


@jax_rule("replica_id")
def jax_replica_id(ctx: Context, op: XlaOp) -> Step:
    axis = _axis(ctx, op)
    return lambda: lax.convert_element_type(lax.axis_index(axis), np.uint32)


@stablehlo_rule("all_gather")
def emit_all_gather(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    check_layout(op)
    attributes = ctx.attributes_of(op)
    dimension = op.attributes["all_gather_dim"]

    def emit(shape: ArrayShape, operand: Value) -> Value:
        return ctx.value("stablehlo.all_gather", shape, [operand], attributes)

    if any(_is_empty(operand, dimension) for operand in op.operands):
        return _for_each_operand(ctx, op, operands, dimension, emit)
    return ctx.value("stablehlo.all_gather", op.shape, operands, attributes)


@importer("stablehlo.all_gather")
def import_all_gather(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    dimension = scope.attribute(operation, "all_gather_dim")
    shard = _size(operands[0].shape, dimension)
    gathered = _size(scope.result_shape(operation), dimension)
    count = _shard_count(scope, operation, shard, gathered)
    return scope.by_schema("all_gather", operation, operands, shard_count=count)


@jax_rule("all_gather")
def jax_all_gather(ctx: Context, op: XlaOp) -> Step:
    axis = _axis(ctx, op)
    dimension = op.attributes["all_gather_dim"]
    return _each(op, partial(lax.all_gather, axis_name=axis, axis=dimension, tiled=True))


@importer("stablehlo.cross-replica-sum")
def import_cross_replica_sum(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    groups = scope.attributes("all_reduce", operation)["replica_groups"]
    return xb.cross_replica_sum(operands[0], groups)


_REDUCTIONS: Final[dict[str, Callable[[], Callable[..., Value]]]] = {
    "add": lambda: lax.psum,
    "maximum": lambda: lax.pmax,
    "minimum": lambda: lax.pmin,
}
"""By the reducer's opcode, a function that returns jax's reduction along an axis."""


@jax_rule("all_reduce")
def jax_all_reduce(ctx: Context, op: XlaOp) -> Step:
    axis = _axis(ctx, op)
    reduction = _REDUCTIONS.get(applied_opcode(op.attributes["to_apply"]) or "")
    if reduction is None:
        raise refusal(
            op, "jax reduces along an axis by add, max and min only", "gather with xb.all_gather"
        )
    return _each(op, partial(reduction(), axis_name=axis))


@stablehlo_rule("reduce_scatter")
def emit_reduce_scatter(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit an operation for each array, since StableHLO's operation takes one array."""
    check_layout(op)
    attributes = ctx.attributes_of(op)

    def emit(shape: ArrayShape, operand: Value) -> Value:
        reducer = op.attributes["to_apply"]
        return ctx.value("stablehlo.reduce_scatter", shape, [operand], attributes, [reducer])

    return _for_each_operand(ctx, op, operands, op.attributes["scatter_dimension"], emit)


@importer("stablehlo.reduce_scatter")
def import_reduce_scatter(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    dimension = scope.attribute(operation, "scatter_dimension")
    reduced = _size(operands[0].shape, dimension)
    shard = _size(scope.result_shape(operation), dimension)
    count = _shard_count(scope, operation, shard, reduced)
    return scope.by_schema("reduce_scatter", operation, operands, shard_count=count)


@jax_rule("reduce_scatter")
def jax_reduce_scatter(ctx: Context, op: XlaOp) -> Step:
    axis = _axis(ctx, op)
    if applied_opcode(op.attributes["to_apply"]) != "add":
        raise refusal(op, "jax reduces and scatters by add only", "reduce with xb.all_reduce")
    dimension = op.attributes["scatter_dimension"]
    return _each(
        op, partial(lax.psum_scatter, axis_name=axis, scatter_dimension=dimension, tiled=True)
    )


@importer("stablehlo.all_to_all")
def import_all_to_all(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record one op per operand, because the public op takes one operand."""
    return [scope.by_schema("all_to_all", operation, [operand]) for operand in operands]


@jax_rule("all_to_all")
def jax_all_to_all(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    all_to_all: Any = lax.all_to_all  # jax has no types for it
    return partial(
        all_to_all,
        axis_name=_axis(ctx, op),
        split_axis=attributes["split_dimension"],
        concat_axis=attributes["concat_dimension"],
        tiled=True,
    )


@stablehlo_rule("all_to_all_tuple")
def emit_all_to_all_tuple(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Concatenate the operands along a new dimension of one array, and exchange the rows.

    An all_to_all of several operands would not do: StableHLO splits each operand.
    """
    check_layout(op)
    count = len(operands)
    assert isinstance(op.shape, TupleShape)  # checked by inference
    element = array_of(op.shape.elements[0])
    dynamic = (False, *element.dynamic_dimensions)
    row = intern_array(element.element_type, (1, *element.dimensions), dynamic)
    table = intern_array(element.element_type, (count, *element.dimensions), dynamic)
    rows = [ctx.value("stablehlo.reshape", row, [operand]) for operand in operands]
    joined = ctx.value("stablehlo.concatenate", table, rows, {"dimension": i64(0)})
    split = {"split_dimension": 0, "concat_dimension": 0, "split_count": count}
    attributes = ctx.attributes("all_to_all", {**op.attributes, **split})
    exchanged = ctx.value("stablehlo.all_to_all", table, [joined], attributes)
    results = []
    for index in range(count):
        bounds = {
            "start_indices": i64_array((index, *(0,) * element.rank)),
            "limit_indices": i64_array((index + 1, *element.dimensions)),
            "strides": i64_array((1,) * row.rank),
        }
        part = ctx.value("stablehlo.slice", row, [exchanged], bounds)
        results.append(ctx.value("stablehlo.reshape", element, [part]))
    return results


@jax_rule("all_to_all_tuple")
def jax_all_to_all_tuple(ctx: Context, op: XlaOp) -> Step:
    axis = _axis(ctx, op)
    all_to_all: Any = lax.all_to_all  # jax has no types for it

    def step(*operands: Value) -> Value:
        stacked = lax.concatenate([lax.expand_dims(o, (0,)) for o in operands], 0)
        exchanged = all_to_all(stacked, axis, 0, 0, tiled=True)
        return tuple(lax.index_in_dim(exchanged, i, keepdims=False) for i in range(len(operands)))

    return step


@jax_rule("collective_permute")
def jax_collective_permute(ctx: Context, op: XlaOp) -> Step:
    pairs = [tuple(pair) for pair in op.attributes["source_target_pairs"]]
    return _each(op, partial(lax.ppermute, axis_name=_axis(ctx, op), perm=pairs))


@jax_rule("collective_broadcast")
def jax_collective_broadcast(ctx: Context, op: XlaOp) -> Step:
    """Gather the operands and take one: jax's own broadcast has no derivative, and none on CPU."""
    axis = _axis(ctx, op, ordered=False)
    groups: Any = op.attributes["replica_groups"].groups
    source = groups[0][0] if groups else 0
    return lambda operand: lax.index_in_dim(lax.all_gather(operand, axis), source, keepdims=False)
