"""Bounded sizes in StableHLO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.mlir.attributes import dense_elements, i64
from lowering.stablehlo.bounded_sizes import (
    ReshapedSize,
    broadcast_sizes,
    is_bounded_broadcast,
    is_bounded_reshape,
    reshaped_sizes,
)
from lowering.stablehlo.rules.registry import Value, attributes_of, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter

_SIZE = intern_array(pt.s32, ())


@rule("dynamic_reshape")
def dynamic_reshape(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit the sizes as one array. A scalar has none, and the op is a reshape."""
    assert isinstance(op.shape, ArrayShape)  # inference has checked it
    if not op.shape.rank:
        return ctx.value("stablehlo.reshape", op.shape, operands)
    return _reshaped(ctx, operands[0], op.shape, operands[1:])


@rule("reshape", when=is_bounded_reshape)
def bounded_reshape(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a dynamic_reshape: StableHLO's reshape has one bounded size at most."""
    source, shape = op.operands[0].shape, op.shape
    assert isinstance(source, ArrayShape)  # inference has checked it
    assert isinstance(shape, ArrayShape)
    sizes = []
    for size in reshaped_sizes(source, shape) or ():
        if not isinstance(size, ReshapedSize):
            sizes.append(_constant(ctx, size))
            continue
        product = _constant(ctx, size.factor)
        for place in size.dimensions:
            part = _size_of(ctx, operands[0], place)
            product = ctx.value("stablehlo.multiply", _SIZE, [product, part])
        divisor = _constant(ctx, size.divisor)
        sizes.append(ctx.value("stablehlo.divide", _SIZE, [product, divisor]))
    return _reshaped(ctx, operands[0], shape, sizes)


def _reshaped(ctx: Emitter, value: Value, shape: ArrayShape, sizes: list[Value]) -> Value:
    one = intern_array(pt.s32, (1,))
    rows = [ctx.value("stablehlo.reshape", one, [size]) for size in sizes]
    row = intern_array(pt.s32, (len(rows),))
    joined = ctx.value("stablehlo.concatenate", row, rows, {"dimension": i64(0)})
    return ctx.value("stablehlo.dynamic_reshape", shape, [value, joined])


@rule("broadcast_in_dim", when=is_bounded_broadcast)
def bounded_broadcast(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Broadcast in the largest size, and set the sizes.

    StableHLO's broadcast_in_dim has one bounded size at most.
    """
    source, shape = op.operands[0].shape, op.shape
    assert isinstance(source, ArrayShape)  # inference has checked it
    assert isinstance(shape, ArrayShape)
    value = resized(ctx, operands[0], source, {})
    attributes = attributes_of(op)
    whole = ctx.value("stablehlo.broadcast_in_dim", shape.at_bounds(), [value], attributes)
    sizes = {
        place: _constant(ctx, shape.dimensions[place])
        if origin is None
        else _size_of(ctx, operands[0], origin)
        for place, origin in broadcast_sizes(op).items()
    }
    return resized(ctx, whole, shape.at_bounds(), sizes)


def resized(ctx: Emitter, value: Value, shape: ArrayShape, sizes: dict[int, Value]) -> Value:
    """The value with these sizes of some of its dimensions, and the largest of the others."""
    marks = list(shape.dynamic_dimensions)
    for place in range(shape.rank):
        if marks[place] or place in sizes:
            size = sizes.get(place)
            if size is None:
                size = _constant(ctx, shape.dimensions[place])
            marks[place] = place in sizes
            step = intern_array(shape.element_type, shape.dimensions, tuple(marks))
            attributes = {"dimension": i64(place)}
            value = ctx.value("stablehlo.set_dimension_size", step, [value, size], attributes)
    return value


def _size_of(ctx: Emitter, value: Value, place: int) -> Value:
    attributes = {"dimension": i64(place)}
    return ctx.value("stablehlo.get_dimension_size", _SIZE, [value], attributes)


def _constant(ctx: Emitter, size: int) -> Value:
    elements = dense_elements(np.array(size, np.int32), _SIZE)
    return ctx.value("stablehlo.constant", _SIZE, [], {"value": elements})
