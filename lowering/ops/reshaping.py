"""Ops that broadcast, reorder, concatenate, pad and slice."""

from __future__ import annotations

from functools import partial
from operator import lt
from typing import TYPE_CHECKING

from jaxlib.mlir import ir

import builder as xb
from builder import shape_inference as infer
from builder.graph.xla_op import XlaOp
from builder.ops.operands import broadcast_to
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape
from lowering.jaxlib_api.lazy_jax import lax
from lowering.ops.registry import Context, Step, Value, array_of, importer, jax_rule

if TYPE_CHECKING:
    from lowering.importer.scope import Scope


@jax_rule("iota")
def jax_iota(ctx: Context, op: XlaOp) -> Step:
    shape = array_of(op.shape)
    if shape.element_type is pt.pred:
        return ctx.pasted(op)
    dimension = op.attributes["iota_dimension"]
    return partial(lax.broadcasted_iota, shape.element_type.dtype, shape.dimensions, dimension)


@importer("stablehlo.broadcast_in_dim")
def import_broadcast_in_dim(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return broadcast_as_imported(scope, operation, operands[0])


def broadcast_as_imported(scope: Scope, operation: ir.Operation, operand: XlaOp) -> XlaOp:
    """Record a broadcast; transpose the operand first if the dimensions are not in ascending order,
    which the public op requires."""
    result = scope.result_array(operation)
    sizes = result.dimensions
    dimensions = scope.attribute(operation, "broadcast_dimensions")
    ascending = tuple(sorted(dimensions))
    if dimensions != ascending:
        operand = xb.transpose(operand, list(map(dimensions.index, ascending)))
    if not result.is_static and infer.broadcast_in_dim(operand.shape, sizes, ascending) != result:
        # An operand of an op on bounded sizes is broadcast to the bounds, and bounded then.
        return broadcast_to(operand, result, ascending)
    return xb.broadcast_in_dim(operand, sizes, ascending)


@importer("stablehlo.broadcast")
def import_broadcast(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.broadcast(operands[0], scope.attribute(operation, "broadcast_sizes"))


@jax_rule("broadcast_in_dim")
def jax_broadcast_in_dim(ctx: Context, op: XlaOp) -> Step:
    sizes = array_of(op.shape).dimensions
    dimensions = op.attributes["broadcast_dimensions"]
    if all(map(lt, dimensions, dimensions[1:])):
        return partial(lax.broadcast_in_dim, shape=sizes, broadcast_dimensions=dimensions)
    # jax requires ascending dimensions, HLO does not.
    order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
    ascending = [dimensions[d] for d in order]
    return lambda value: lax.broadcast_in_dim(lax.transpose(value, order), sizes, ascending)


@importer("stablehlo.reshape")
def import_reshape(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a reshape to the sizes of the result."""
    source, shape = operands[0], scope.result_array(operation)
    sizes = shape.dimensions
    if source.shape.is_static or infer.reshape(source.shape, sizes) is shape:
        return xb.reshape(source, sizes)
    # A bounded dimension is split; the result type has the bounded part.
    bounded = shape.dynamic_dimensions
    inferred = bounded.index(True) if True in bounded else -1
    return xb.reshape_with_inferred_dimension(source, sizes, inferred)


@jax_rule("reshape")
def jax_reshape(ctx: Context, op: XlaOp) -> Step:
    return partial(lax.reshape, new_sizes=array_of(op.shape).dimensions)


@jax_rule("reverse")
def jax_reverse(ctx: Context, op: XlaOp) -> Step:
    return partial(lax.rev, dimensions=op.attributes["dimensions"])


@jax_rule("transpose")
def jax_transpose(ctx: Context, op: XlaOp) -> Step:
    return partial(lax.transpose, permutation=op.attributes["permutation"])


@jax_rule("concatenate")
def jax_concatenate(ctx: Context, op: XlaOp) -> Step:
    dimension = op.attributes["dimension"]

    def step(*operands: Value) -> Value:
        return lax.concatenate(operands, dimension)

    return step


@jax_rule("pad")
def jax_pad(ctx: Context, op: XlaOp) -> Step:
    config = op.attributes["padding_config"]
    entries = [
        (d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in config.dimensions
    ]
    return partial(lax.pad, padding_config=entries)


@importer("stablehlo.slice")
def import_slice(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a slice, or a dynamic_slice if a bounded dimension becomes static.

    The decomposition of top_k has slices from a bounded to a static size. The shape inference of
    `xb.slice` would infer a bounded size.
    """
    source = operands[0].shape
    if isinstance(source, ArrayShape) and not source.is_static:
        result = scope.result_array(operation)
        becomes_static = any(
            was_dynamic and bound != UNBOUNDED and not is_dynamic and size > 1
            for was_dynamic, bound, is_dynamic, size in zip(
                source.dynamic_dimensions,
                source.dimensions,
                result.dynamic_dimensions,
                result.dimensions,
                strict=True,
            )
        )
        starts = scope.attribute(operation, "start_indices")
        strides = scope.attribute(operation, "strides")
        if becomes_static and not any(starts) and set(strides) == {1}:
            zero = scope.builder.constant(0, xb.s32)
            return xb.dynamic_slice(operands[0], [zero] * source.rank, result.dimensions)
    return scope.by_schema("slice", operation, operands)


@jax_rule("slice")
def jax_slice(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    starts, strides = attributes["start_indices"], attributes["strides"]
    limits = attributes["limit_indices"]
    if UNBOUNDED not in limits:
        return partial(lax.slice, start_indices=starts, limit_indices=limits, strides=strides)

    def to_the_end(operand: Value) -> Value:
        pairs = zip(limits, operand.shape, strict=True)
        ends = [size if limit == UNBOUNDED else limit for limit, size in pairs]
        return lax.slice(operand, starts, ends, strides)

    return to_the_end
