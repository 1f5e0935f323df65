"""Reductions and sorts in StableHLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from builder import primitive_type as pt
from builder.computation import XlaComputation
from builder.own_computations import earliest_selected, in_order, narrowed
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, Shape, TupleShape, intern_array
from builder.workarounds import is_awkward_selection, is_sorted_top_k, sorted_as
from builder.xla_op import XlaOp
from lowering.mlir_attributes import Attribute, dense_elements, i64, i64_array, truth
from lowering.rules.registry import Value, direct_applying, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter


@direct_applying("reduce", "to_apply")
@direct_applying("map", "to_apply")
def dimensions(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    return {"dimensions": i64_array(attributes["dimensions"])}


# Windows.

_LISTS = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")


@direct_applying("reduce_window", "to_apply")
@direct_applying("select_and_scatter", "select", "scatter")
def window(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    """The attributes of a window, called in StableHLO as they are here."""
    found = {name: i64_array(attributes[name]) for name in _LISTS if name in attributes}
    pairs = attributes["padding"]
    text = str([list(pair) for pair in pairs]) if pairs else ""
    found["padding"] = f"dense<{text}> : tensor<{len(pairs)}x2xi64>"
    return found


@rule("select_and_scatter", when=is_awkward_selection)
def selected_by_place(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Selects together with the places of the elements, and scatters to those places."""
    operand, source, init = operands
    shape, windows = op.shape, op.operands[1].shape
    assert isinstance(shape, ArrayShape)  # inference has said so
    assert isinstance(windows, ArrayShape)
    scatter = op.attributes["scatter"]
    if not shape.rank:
        return ctx.emit_ops(scatter, [init, source])
    count = shape.element_count
    index = pt.s32 if count < 2**31 else pt.s64
    # The places of elements in row-major order; -1 where there is none.
    row = intern_array(index, (count,))
    places = ctx.value("stablehlo.iota", row, [], {"iota_dimension": i64(0)})
    places = ctx.value("stablehlo.reshape", shape.with_element_type(index), [places])
    nowhere = _constant(ctx, intern_array(index, ()), -1)
    results = TupleShape([windows, windows.with_element_type(index)])
    selection = earliest_selected(op.attributes["select"], index)
    steps = i64_array((1,) * shape.rank)
    _, selected = ctx.create(
        "stablehlo.reduce_window",
        results,
        [operand, places, init, nowhere],
        {**window(op.attributes), "base_dilations": steps, "window_dilations": steps},
        [selection],
    )
    # What is scattered to nowhere, out of bounds, is dropped.
    times = windows.element_count
    where = ctx.value("stablehlo.reshape", intern_array(index, (times, 1)), [selected])
    updates = intern_array(shape.element_type, (times,))
    flat = intern_array(shape.element_type, (count,))
    begun = ctx.value(
        "stablehlo.broadcast_in_dim",
        flat,
        [init],
        {"broadcast_dimensions": i64_array(())},
    )
    values = ctx.value("stablehlo.reshape", updates, [source])
    numbers = (
        "#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        "index_vector_dim = 1>"
    )
    scattered = ctx.value(
        "stablehlo.scatter",
        flat,
        [begun, where, values],
        {
            "scatter_dimension_numbers": numbers,
            "indices_are_sorted": truth(False),
            "unique_indices": truth(False),
        },
        [scatter],
    )
    return ctx.value("stablehlo.reshape", shape, [scattered])


def _constant(ctx: Emitter, shape: ArrayShape, number: int) -> Value:
    array = np.array(number).astype(shape.element_type.dtype)
    attributes = {"value": dense_elements(array, shape)}
    return ctx.value("stablehlo.constant", shape, [], attributes)


# Sorts.


@rule("sort")
def sort(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    shapes = [operand.shape for operand in op.operands]
    comparator = op.attributes["to_apply"]
    dimension, is_stable = op.attributes["dimension"], op.attributes["is_stable"]
    results = _sorted(ctx, shapes, operands, comparator, dimension, is_stable=is_stable)
    return results[0] if op.shape.is_array else results


def _sorted(
    ctx: Emitter,
    shapes: Sequence[Shape],
    operands: list[Value],
    comparator: XlaComputation,
    dimension: int,
    *,
    is_stable: bool,
    first: int | None = None,
) -> list[Value]:
    """Arrays sorted together, each in the type of `sorted_as`; the `first` of each row if given."""
    types = [sorted_as(shape.element_type) for shape in shapes]
    wide = [_retyped(ctx, *pair) for pair in zip(operands, shapes, types, strict=True)]
    if any(t is not shape.element_type for t, shape in zip(types, shapes, strict=True)):
        comparator = narrowed(comparator, types)
    arrays = [_with_type(shape, t) for shape, t in zip(shapes, types, strict=True)]
    attributes = {
        "dimension": i64(dimension),
        "is_stable": truth(is_stable),
    }
    values = ctx.create("stablehlo.sort", TupleShape(arrays), wide, attributes, [comparator])
    if first is not None:
        values = [_first(ctx, *pair, first) for pair in zip(values, arrays, strict=True)]
        arrays = [_shortened(array, first) for array in arrays]
    return [
        _retyped(ctx, value, array, shape.element_type)
        for value, array, shape in zip(values, arrays, shapes, strict=True)
    ]


def _shortened(shape: ArrayShape, last: int) -> ArrayShape:
    """The shape with a last dimension of fixed size `last`, as a slice has it."""
    sizes = shape.dimensions[:-1]
    # Of a slice, a bounded size of at most 1 is a fixed one.
    dynamic = [d and n != 1 for d, n in zip(shape.dynamic_dimensions, sizes, strict=False)]
    return intern_array(shape.element_type, (*sizes, last), (*dynamic, False))


def _first(ctx: Emitter, value: Value, shape: ArrayShape, count: int) -> Value:
    """The first `count` elements along the last dimension."""
    bounds = {
        "start_indices": i64_array((0,) * shape.rank),
        "limit_indices": i64_array((*shape.dimensions[:-1], count)),
        "strides": i64_array((1,) * shape.rank),
    }
    return ctx.value("stablehlo.slice", _shortened(shape, count), [value], bounds)


def _with_type(shape: Shape, element_type: PrimitiveType) -> ArrayShape:
    assert isinstance(shape, ArrayShape)  # inference has said so
    return shape.with_element_type(element_type)


def _retyped(ctx: Emitter, value: Value, shape: Shape, to: PrimitiveType) -> Value:
    """A value between its own type and that of `sorted_as`: converted, floats bit by bit."""
    source = shape.element_type
    if source is to:
        return value
    name = "bitcast_convert" if source.is_floating or to.is_floating else "convert"
    return ctx.value(f"stablehlo.{name}", _with_type(shape, to), [value])


@rule("top_k")
def top_k(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    k = op.attributes["k"]
    if not is_sorted_top_k(op):
        return ctx.value("chlo.top_k", op.shape, operands, {"k": i64(k)})
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)  # inference has said so
    numbers, places = _numbered(ctx, source, operands[0])
    direction = "GT" if op.attributes["largest"] else "LT"
    comparator = in_order((source.element_type, pt.s32), direction)
    pair, values = [source, numbers], [operands[0], places]
    return _sorted(ctx, pair, values, comparator, source.rank - 1, is_stable=True, first=k)


def _numbered(ctx: Emitter, shape: ArrayShape, value: Value) -> tuple[ArrayShape, Value]:
    """0, 1, 2, ... along the last dimension, of the sizes of `value`, bounded ones too."""
    numbers = intern_array(pt.s32, shape.dimensions)
    dimension = {"iota_dimension": i64(shape.rank - 1)}
    places = ctx.value("stablehlo.iota", numbers, [], dimension)
    for index, is_dynamic in enumerate(shape.dynamic_dimensions):
        if is_dynamic:
            along = {"dimension": i64(index)}
            scalar = intern_array(pt.s32, ())
            size = ctx.value("stablehlo.get_dimension_size", scalar, [value], along)
            numbers = intern_array(
                pt.s32,
                shape.dimensions,
                tuple(d and i <= index for i, d in enumerate(shape.dynamic_dimensions)),
            )
            places = ctx.value("stablehlo.set_dimension_size", numbers, [places, size], along)
    return numbers, places
