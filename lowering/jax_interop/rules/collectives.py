"""Collective ops, along an axis of jax.shard_map or jax.vmap."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
from jax import lax

from builder.graph.xla_op import XlaOp
from lowering.jax_interop.reducers import applied_opcode
from lowering.jax_interop.registry import REFUSED, Context, Step, Value, refusal, rule

REFUSED["partition_id"] = (
    "jax partitions programs itself",
    "use replica_id, and to_jax with an axis of jax.shard_map",
)


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
            f"the replica groups must be one group in ascending order, got {groups}",
            "use one group, or a mesh with an axis for each group in jax.shard_map",
        )
    return ctx.axis


def _each(op: XlaOp, function: Callable[[Value], Value]) -> Step:
    """Return a step that applies a function to each operand."""
    if op.shape.is_tuple:
        return lambda *operands: tuple(map(function, operands))
    return function


_REDUCTIONS: Final[dict[str, Callable[..., Value]]] = {
    "add": lax.psum,
    "maximum": lax.pmax,
    "minimum": lax.pmin,
}


_all_to_all: Any = lax.all_to_all  # jax has no types for it


@rule("replica_id")
def replica_id(ctx: Context, op: XlaOp) -> Step:
    axis = _axis(ctx, op)
    return lambda: lax.convert_element_type(lax.axis_index(axis), np.uint32)


@rule("all_reduce")
def all_reduce(ctx: Context, op: XlaOp) -> Step:
    axis = _axis(ctx, op)
    reduction = _REDUCTIONS.get(applied_opcode(op.attributes["to_apply"]) or "")
    if reduction is None:
        raise refusal(
            op, "jax reduces along an axis by add, max and min only", "gather with xb.all_gather"
        )
    return _each(op, partial(reduction, axis_name=axis))


@rule("reduce_scatter")
def reduce_scatter(ctx: Context, op: XlaOp) -> Step:
    axis = _axis(ctx, op)
    if applied_opcode(op.attributes["to_apply"]) != "add":
        raise refusal(op, "jax reduces and scatters by add only", "reduce with xb.all_reduce")
    dimension = op.attributes["scatter_dimension"]
    return _each(
        op, partial(lax.psum_scatter, axis_name=axis, scatter_dimension=dimension, tiled=True)
    )


@rule("all_gather")
def all_gather(ctx: Context, op: XlaOp) -> Step:
    axis = _axis(ctx, op)
    dimension = op.attributes["all_gather_dim"]
    return _each(op, partial(lax.all_gather, axis_name=axis, axis=dimension, tiled=True))


@rule("all_to_all")
def all_to_all(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    return partial(
        _all_to_all,
        axis_name=_axis(ctx, op),
        split_axis=attributes["split_dimension"],
        concat_axis=attributes["concat_dimension"],
        tiled=True,
    )


@rule("all_to_all_tuple")
def all_to_all_tuple(ctx: Context, op: XlaOp) -> Step:
    axis = _axis(ctx, op)

    def step(*operands: Value) -> Value:
        stacked = lax.concatenate([lax.expand_dims(o, (0,)) for o in operands], 0)
        exchanged = _all_to_all(stacked, axis, 0, 0, tiled=True)
        return tuple(lax.index_in_dim(exchanged, i, keepdims=False) for i in range(len(operands)))

    return step


@rule("collective_permute")
def collective_permute(ctx: Context, op: XlaOp) -> Step:
    pairs = [tuple(pair) for pair in op.attributes["source_target_pairs"]]
    return _each(op, partial(lax.ppermute, axis_name=_axis(ctx, op), perm=pairs))


@rule("collective_broadcast")
def collective_broadcast(ctx: Context, op: XlaOp) -> Step:
    """Gather the operands and take one: jax's own broadcast has no derivative, and none on CPU."""
    axis = _axis(ctx, op, ordered=False)
    groups: Any = op.attributes["replica_groups"].groups
    source = groups[0][0] if groups else 0
    return lambda operand: lax.index_in_dim(lax.all_gather(operand, axis), source, keepdims=False)
