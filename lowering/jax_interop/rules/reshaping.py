"""Ops that broadcast, reorder, concatenate, pad and slice."""

from __future__ import annotations

from functools import partial
from operator import lt

from jax import lax

from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.registry import Context, Step, Value, array_of, rule


@rule("iota")
def iota(ctx: Context, op: XlaOp) -> Step:
    shape = array_of(op.shape)
    if shape.element_type is pt.pred:
        return pasted(ctx.computation, op)
    dimension = op.attributes["iota_dimension"]
    return partial(lax.broadcasted_iota, shape.element_type.dtype, shape.dimensions, dimension)


@rule("reshape")
def reshape(ctx: Context, op: XlaOp) -> Step:
    return partial(lax.reshape, new_sizes=array_of(op.shape).dimensions)


@rule("reverse")
def reverse(ctx: Context, op: XlaOp) -> Step:
    return partial(lax.rev, dimensions=op.attributes["dimensions"])


@rule("transpose")
def transpose(ctx: Context, op: XlaOp) -> Step:
    return partial(lax.transpose, permutation=op.attributes["permutation"])


@rule("broadcast_in_dim")
def broadcast_in_dim(ctx: Context, op: XlaOp) -> Step:
    sizes = array_of(op.shape).dimensions
    dimensions = op.attributes["broadcast_dimensions"]
    if all(map(lt, dimensions, dimensions[1:])):
        return partial(lax.broadcast_in_dim, shape=sizes, broadcast_dimensions=dimensions)
    # jax requires ascending dimensions, HLO does not.
    order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
    ascending = [dimensions[d] for d in order]
    return lambda value: lax.broadcast_in_dim(lax.transpose(value, order), sizes, ascending)


@rule("concatenate")
def concatenate(ctx: Context, op: XlaOp) -> Step:
    dimension = op.attributes["dimension"]

    def step(*operands: Value) -> Value:
        return lax.concatenate(operands, dimension)

    return step


@rule("pad")
def pad(ctx: Context, op: XlaOp) -> Step:
    config = op.attributes["padding_config"]
    entries = [
        (d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in config.dimensions
    ]
    return partial(lax.pad, padding_config=entries)


@rule("slice")
def slice_(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    return partial(
        lax.slice,
        start_indices=attributes["start_indices"],
        limit_indices=attributes["limit_indices"],
        strides=attributes["strides"],
    )
