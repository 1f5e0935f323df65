"""Collective ops in StableHLO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.types.shape import ArrayShape, TupleShape, intern_array
from lowering.mlir.attributes import i64, i64_array
from lowering.stablehlo.attribute_codecs import stablehlo_attributes
from lowering.stablehlo.rules.elementwise import filled
from lowering.stablehlo.rules.operand_layouts import need_orders
from lowering.stablehlo.rules.registry import Value, attributes_of, check, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


@check("all_reduce", "all_to_all", "collective_broadcast")
def check_layout(op: XlaOp) -> None:
    """Refuse a layout of the result that is more than an order of dimensions."""
    laid_out = op.attributes.get("shape_with_layout")
    if laid_out is not None:
        need_orders(op, laid_out)


def _is_empty(operand: XlaOp, dimension: int) -> bool:
    """Whether an operand has no elements along a dimension.

    StableHLO refuses to gather or to scatter along it.
    """
    shape = operand.shape
    return isinstance(shape, ArrayShape) and shape.dimensions[dimension] == 0


def _parts(ctx: Emitter, op: XlaOp, operands: list[Value], dimension: int, one: Any) -> Value:
    """The value of an op that is emitted as one operation for each operand.

    Args:
        ctx: emits.
        op: the op.
        operands: their values.
        dimension: along which they are gathered or scattered; an empty result is a constant if it
            has no elements along it.
        one: emits the operation for the shape of its result and its operand.
    """
    shapes = op.shape.elements if isinstance(op.shape, TupleShape) else (op.shape,)
    values = []
    for source, shape, operand in zip(op.operands, shapes, operands, strict=True):
        assert isinstance(shape, ArrayShape)  # inference has checked it
        is_empty = _is_empty(source, dimension)
        values.append(filled(ctx, shape, 0) if is_empty else one(shape, operand))
    return values if isinstance(op.shape, TupleShape) else values[0]


@rule("all_gather")
def all_gather(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    check_layout(op)
    attributes = attributes_of(op)
    dimension = op.attributes["all_gather_dim"]
    name = "stablehlo.all_gather"
    if any(_is_empty(operand, dimension) for operand in op.operands):
        return _parts(
            ctx, op, operands, dimension, lambda s, v: ctx.value(name, s, [v], attributes)
        )
    return ctx.value(name, op.shape, operands, attributes)


@rule("reduce_scatter")
def reduce_scatter(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit one operation for each array: StableHLO's takes one."""
    check_layout(op)
    attributes = attributes_of(op)
    dimension = op.attributes["scatter_dimension"]

    def one(shape: ArrayShape, operand: Value) -> Value:
        reducer = op.attributes["to_apply"]
        return ctx.value("stablehlo.reduce_scatter", shape, [operand], attributes, [reducer])

    return _parts(ctx, op, operands, dimension, one)


@rule("all_to_all_tuple")
def all_to_all_tuple(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Concatenate the operands along a new dimension, and exchange its elements.

    StableHLO's all_to_all of several operands is another operation: it splits each of them.
    """
    count = len(operands)
    assert isinstance(op.shape, TupleShape)  # inference has checked it
    one = op.shape.elements[0]
    assert isinstance(one, ArrayShape)
    dynamic = (False, *one.dynamic_dimensions)
    row = intern_array(one.element_type, (1, *one.dimensions), dynamic)
    table = intern_array(one.element_type, (count, *one.dimensions), dynamic)
    rows = [ctx.value("stablehlo.reshape", row, [operand]) for operand in operands]
    joined = ctx.value("stablehlo.concatenate", table, rows, {"dimension": i64(0)})
    check_layout(op)
    split = {"split_dimension": 0, "concat_dimension": 0, "split_count": count}
    attributes = stablehlo_attributes(SCHEMAS["all_to_all"], {**op.attributes, **split})
    exchanged = ctx.value("stablehlo.all_to_all", table, [joined], attributes)
    results = []
    for index in range(count):
        bounds: dict[str, Any] = {
            "start_indices": (index, *(0 for _ in one.dimensions)),
            "limit_indices": (index + 1, *one.dimensions),
            "strides": tuple(1 for _ in row.dimensions),
        }
        cut = {name: i64_array(values) for name, values in bounds.items()}
        taken = ctx.value("stablehlo.slice", row, [exchanged], cut)
        results.append(ctx.value("stablehlo.reshape", one, [taken]))
    return results
