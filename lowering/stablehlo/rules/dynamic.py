"""Bounded and unbounded sizes in StableHLO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, intern_array
from lowering.mlir.attributes import i64
from lowering.stablehlo.bounded_sizes import (
    ReshapedSize,
    broadcast_sizes,
    is_bounded_broadcast,
    is_bounded_reshape,
    reshaped_sizes,
)
from lowering.stablehlo.rules.common import as_array, constant
from lowering.stablehlo.rules.registry import Value, attributes_of, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter

_SIZE = intern_array(pt.s32, ())


@rule("dynamic_reshape")
def dynamic_reshape(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a dynamic_reshape with the sizes as one vector; a reshape if the result is a scalar."""
    shape = as_array(op.shape)
    if not shape.rank:
        return ctx.value("stablehlo.reshape", shape, operands)
    return _reshaped(ctx, operands[0], shape, operands[1:])


@rule("reshape", when=is_bounded_reshape)
def bounded_reshape(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a dynamic_reshape: StableHLO's reshape supports at most one bounded size."""
    source, shape = as_array(op.operands[0].shape), as_array(op.shape)
    sizes = []
    for size in reshaped_sizes(source, shape) or ():
        if not isinstance(size, ReshapedSize):
            sizes.append(constant(ctx, _SIZE, size))
            continue
        product = constant(ctx, _SIZE, size.factor)
        for dimension in size.dimensions:
            factors = [product, _size_of(ctx, operands[0], dimension)]
            product = ctx.value("stablehlo.multiply", _SIZE, factors)
        divisor = constant(ctx, _SIZE, size.divisor)
        sizes.append(ctx.value("stablehlo.divide", _SIZE, [product, divisor]))
    return _reshaped(ctx, operands[0], shape, sizes)


def _reaches_an_unbounded_size(op: XlaOp) -> bool:
    return UNBOUNDED in op.attributes["limit_indices"]


@rule("slice", when=_reaches_an_unbounded_size)
def unbounded_slice(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a slice with its indices as operands, because a limit is an unbounded size."""
    shape = as_array(op.shape)
    vector = intern_array(pt.s32, (shape.rank,))
    limits = [
        _size_of(ctx, operands[0], dimension) if limit == UNBOUNDED else constant(ctx, _SIZE, limit)
        for dimension, limit in enumerate(op.attributes["limit_indices"])
    ]
    starts, strides = (
        constant(ctx, vector, op.attributes[name]) for name in ("start_indices", "strides")
    )
    values = [operands[0], starts, _joined(ctx, limits), strides]
    return ctx.value("stablehlo.real_dynamic_slice", shape, values)


def resized(ctx: Emitter, value: Value, source: ArrayShape, shape: ArrayShape) -> Value:
    """Convert an array from type `source` to `shape`; they differ in which sizes are unbounded.

    The sizes at run time are equal.
    """
    sizes = []
    for dimension in range(shape.rank):
        known = [
            array.dimensions[dimension]
            for array in (shape, source)
            if not array.dynamic_dimensions[dimension]
        ]
        size = constant(ctx, _SIZE, known[0]) if known else _size_of(ctx, value, dimension)
        sizes.append(size)
    return _reshaped(ctx, value, shape, sizes)


def _reshaped(ctx: Emitter, value: Value, shape: ArrayShape, sizes: list[Value]) -> Value:
    return ctx.value("stablehlo.dynamic_reshape", shape, [value, _joined(ctx, sizes)])


def _joined(ctx: Emitter, sizes: list[Value]) -> Value:
    """Emit the concatenation of scalar sizes to a vector."""
    row = intern_array(pt.s32, (1,))
    rows = [ctx.value("stablehlo.reshape", row, [size]) for size in sizes]
    vector = intern_array(pt.s32, (len(rows),))
    return ctx.value("stablehlo.concatenate", vector, rows, {"dimension": i64(0)})


@rule("broadcast_in_dim", when=is_bounded_broadcast)
def bounded_broadcast(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a broadcast to the bounds, and set the sizes of the result.

    StableHLO's broadcast_in_dim supports at most one bounded size.
    """
    source, shape = as_array(op.operands[0].shape), as_array(op.shape)
    value = _resized(ctx, operands[0], source, {})
    value = ctx.value("stablehlo.broadcast_in_dim", shape.at_bounds(), [value], attributes_of(op))
    sizes = {
        dimension: constant(ctx, _SIZE, shape.dimensions[dimension])
        if origin is None
        else _size_of(ctx, operands[0], origin)
        for dimension, origin in broadcast_sizes(op).items()
    }
    return _resized(ctx, value, shape.at_bounds(), sizes)


def _resized(ctx: Emitter, value: Value, shape: ArrayShape, sizes: dict[int, Value]) -> Value:
    """Set dimension sizes of an array to `sizes`; other bounded dimensions get their bounds."""
    bounded = list(shape.dynamic_dimensions)
    for dimension, bound in enumerate(shape.dimensions):
        if bounded[dimension] or dimension in sizes:
            size = sizes[dimension] if dimension in sizes else constant(ctx, _SIZE, bound)
            bounded[dimension] = dimension in sizes
            result = intern_array(shape.element_type, shape.dimensions, tuple(bounded))
            attributes = {"dimension": i64(dimension)}
            value = ctx.value("stablehlo.set_dimension_size", result, [value, size], attributes)
    return value


def _size_of(ctx: Emitter, value: Value, dimension: int) -> Value:
    attributes = {"dimension": i64(dimension)}
    return ctx.value("stablehlo.get_dimension_size", _SIZE, [value], attributes)
