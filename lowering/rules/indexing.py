"""Slices and updates at places known only when it runs, gathers, scatters, in StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from builder import primitive_type as pt
from builder.attributes import GatherDimensionNumbers, ScatterDimensionNumbers
from builder.scatter_form import ScatterForm, scatter_form
from builder.shape import ArrayShape, TupleShape, intern_array
from builder.workarounds import WRITTEN_OUT
from builder.xla_op import XlaOp
from lowering.flattening import unflatten
from lowering.mlir_attributes import Attribute, dense_elements, i64_array, truth
from lowering.rules.elementwise import filled, widened
from lowering.rules.registry import DIRECT, Value, direct, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter

DIRECT["dynamic_update_slice"] = "stablehlo.dynamic_update_slice"


@direct("dynamic_slice")
def dynamic_slice(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    return {"slice_sizes": i64_array(attributes["slice_sizes"])}


@lru_cache(maxsize=65536)
def _numbers_text(name: str, numbers: GatherDimensionNumbers | ScatterDimensionNumbers) -> str:
    """The attribute `name` of StableHLO, whose fields have the names of those here."""
    fields = {field: getattr(numbers, field) for field in numbers.__match_args__}
    vector_dim = fields.pop("index_vector_dim")
    lists = "".join(f"{field} = {list(values)}, " for field, values in fields.items())
    return f"#stablehlo.{name}<{lists}index_vector_dim = {vector_dim}>"


@direct("gather")
def gather(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    return {
        "dimension_numbers": _numbers_text("gather", attributes["dimension_numbers"]),
        "slice_sizes": i64_array(attributes["slice_sizes"]),
        "indices_are_sorted": truth(attributes["indices_are_sorted"]),
    }


@rule("scatter")
def scatter(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    form = scatter_form(op)
    numbers, shape = op.attributes["dimension_numbers"], op.shape
    count = len(op.operands) // 2
    said = {}
    if form is not None:
        said[WRITTEN_OUT] = truth(True)
        numbers = form.numbers
        padded = [_padded(ctx, op, form, index, operands[index]) for index in range(count)]
        operands = [*padded, _indices(ctx, op, form, operands[count]), *operands[count + 1 :]]
        shapes = [form.padded(o.shape, form.marks) for o in op.operands[:count]]
        shape = shapes[0] if count == 1 else TupleShape(shapes)
    attributes = {
        "scatter_dimension_numbers": _numbers_text("scatter", numbers),
        "indices_are_sorted": truth(op.attributes["indices_are_sorted"]),
        "unique_indices": truth(op.attributes["unique_indices"]),
        **said,
    }
    combiner = op.attributes["to_apply"]
    results = ctx.create("stablehlo.scatter", shape, operands, attributes, [combiner])
    if form is not None:
        results = [_cut(ctx, op, form, index, value) for index, value in enumerate(results)]
    return unflatten(op.shape, iter(results))


def _padded(ctx: Emitter, op: XlaOp, form: ScatterForm, index: int, value: Value) -> Value:
    """Operand `index` of a scatter, reshaped and padded."""
    operand = op.operands[index].shape
    shape = form.reshaped(operand)
    scalar = intern_array(shape.element_type, ())
    if shape is not operand:
        value = ctx.value("stablehlo.reshape", shape, [value])
    none = (0,) * shape.rank

    def pad(
        value: Value, marks: int, number: int, low: tuple[int, ...], high: tuple[int, ...]
    ) -> Value:
        attributes = {
            "edge_padding_low": i64_array(low),
            "edge_padding_high": i64_array(high),
            "interior_padding": i64_array(none),
        }
        operands = [value, filled(ctx, scalar, number)]
        return ctx.value("stablehlo.pad", form.padded(operand, marks), operands, attributes)

    if any(form.low):
        value = pad(value, 0, 0, form.low, form.high)
    one = tuple(int(d == form.marked) for d in range(shape.rank))
    for mark in range(form.marks):
        value = pad(value, mark + 1, index >> mark & 1, none, one)
    return value


def _indices(ctx: Emitter, op: XlaOp, form: ScatterForm, value: Value) -> Value:
    """The indices of a scatter, moved by the padding."""
    if form.zeros is not None:
        return filled(ctx, intern_array(pt.s32, form.zeros), 0)
    if form.shifts is None:
        return value
    source = op.operands[len(op.operands) // 2].shape
    assert isinstance(source, ArrayShape)  # inference has said so
    if source.element_type is pt.u64:
        most = filled(ctx, source, pt.s64.max)
        value = ctx.value("stablehlo.minimum", source, [value, most])
    shape = source.with_element_type(pt.s64)
    if source is not shape:
        value = widened(ctx, value, source, pt.s64)
    place = op.attributes["dimension_numbers"].index_vector_dim
    least, greatest, moved = (
        _along(ctx, shape, place, [shift[i] for shift in form.shifts]) for i in range(3)
    )
    value = ctx.value("stablehlo.clamp", shape, [least, value, greatest])
    return ctx.value("stablehlo.add", shape, [value, moved])


def _along(ctx: Emitter, shape: ArrayShape, place: int, numbers: list[int]) -> Value:
    """Numbers along dimension `place`, or one number throughout."""
    if place == shape.rank:
        return filled(ctx, shape, numbers[0])
    vector = intern_array(pt.s64, (len(numbers),))
    elements = dense_elements(np.array(numbers, np.int64), vector)
    value = ctx.value("stablehlo.constant", vector, [], {"value": elements})
    places = {"broadcast_dimensions": i64_array((place,))}
    return ctx.value("stablehlo.broadcast_in_dim", shape, [value], places)


def _cut(ctx: Emitter, op: XlaOp, form: ScatterForm, index: int, value: Value) -> Value:
    """A padded result with the padding cut off again."""
    operand = op.operands[index].shape
    shape = form.reshaped(operand)
    if form.padded(operand, form.marks) is not shape:
        limits = tuple(low + size for low, size in zip(form.low, form.dimensions, strict=True))
        bounds = {
            "start_indices": i64_array(form.low),
            "limit_indices": i64_array(limits),
            "strides": i64_array((1,) * shape.rank),
        }
        value = ctx.value("stablehlo.slice", shape, [value], bounds)
    if shape is not operand:
        value = ctx.value("stablehlo.reshape", operand, [value])
    return value
