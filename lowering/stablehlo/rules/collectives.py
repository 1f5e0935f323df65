"""Collective ops in StableHLO."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.types.shape import ArrayShape, TupleShape, intern_array
from lowering.mlir.attributes import i64, i64_array
from lowering.stablehlo.rules.common import as_array, filled
from lowering.stablehlo.rules.operand_layouts import need_orders
from lowering.stablehlo.rules.registry import Value, attributes_of, check, rule
from lowering.stablehlo.schema_attributes import stablehlo_attributes

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


@check("all_reduce", "all_to_all", "collective_broadcast")
def check_layout(op: XlaOp) -> None:
    """Check that the layout of the result is an order of dimensions."""
    shape = op.attributes.get("shape_with_layout")
    if shape is not None:
        need_orders(op, shape)


def _is_empty(operand: XlaOp, dimension: int) -> bool:
    """Return whether an operand has size 0 along a dimension.

    StableHLO refuses to gather or scatter along such a dimension.
    """
    return as_array(operand.shape).dimensions[dimension] == 0


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
        filled(ctx, as_array(shape), 0)
        if _is_empty(source, dimension)
        else emit(as_array(shape), operand)
        for source, shape, operand in zip(op.operands, shapes, operands, strict=True)
    ]
    return values if isinstance(op.shape, TupleShape) else values[0]


@rule("all_gather")
def all_gather(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    check_layout(op)
    attributes = attributes_of(op)
    dimension = op.attributes["all_gather_dim"]

    def emit(shape: ArrayShape, operand: Value) -> Value:
        return ctx.value("stablehlo.all_gather", shape, [operand], attributes)

    if any(_is_empty(operand, dimension) for operand in op.operands):
        return _for_each_operand(ctx, op, operands, dimension, emit)
    return ctx.value("stablehlo.all_gather", op.shape, operands, attributes)


@rule("reduce_scatter")
def reduce_scatter(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit an operation for each array, since StableHLO's operation takes one array."""
    check_layout(op)
    attributes = attributes_of(op)

    def emit(shape: ArrayShape, operand: Value) -> Value:
        reducer = op.attributes["to_apply"]
        return ctx.value("stablehlo.reduce_scatter", shape, [operand], attributes, [reducer])

    return _for_each_operand(ctx, op, operands, op.attributes["scatter_dimension"], emit)


@rule("all_to_all_tuple")
def all_to_all_tuple(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Concatenate the operands along a new dimension of one array, and exchange the rows.

    An all_to_all of several operands would not do: StableHLO splits each operand.
    """
    check_layout(op)
    count = len(operands)
    assert isinstance(op.shape, TupleShape)  # checked by inference
    element = as_array(op.shape.elements[0])
    dynamic = (False, *element.dynamic_dimensions)
    row = intern_array(element.element_type, (1, *element.dimensions), dynamic)
    table = intern_array(element.element_type, (count, *element.dimensions), dynamic)
    rows = [ctx.value("stablehlo.reshape", row, [operand]) for operand in operands]
    joined = ctx.value("stablehlo.concatenate", table, rows, {"dimension": i64(0)})
    split = {"split_dimension": 0, "concat_dimension": 0, "split_count": count}
    attributes = stablehlo_attributes(SCHEMAS["all_to_all"], {**op.attributes, **split})
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
