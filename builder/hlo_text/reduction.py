"""Reductions and sorts in HLO text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from builder import primitive_type as pt
from builder.computation import XlaComputation
from builder.hlo_text.printer import Printer, Written, applied_along, rule
from builder.hlo_text.values import array
from builder.own_computations import earliest_selected, in_order, narrowed
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, TupleShape, intern_array
from builder.workarounds import is_awkward_selection, is_narrow_sort, is_sorted_top_k, sorted_as
from builder.xla_op import XlaOp


@rule("reduce")
def _reduce(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, applied_along(printer, op)


def _window(attributes: Mapping[str, Any]) -> str:
    """A window in HLO's words, without what is as it is when nothing is said."""
    if not attributes["window_dimensions"]:
        return ""
    lists = {
        "size": attributes["window_dimensions"],
        "stride": attributes["window_strides"],
        "pad": [f"{low}_{high}" for low, high in attributes["padding"]],
        "lhs_dilate": attributes.get("base_dilations", ()),
        "rhs_dilate": attributes.get("window_dilations", ()),
    }
    unsaid = {"stride": 1, "pad": "0_0", "lhs_dilate": 1, "rhs_dilate": 1}
    said = " ".join(
        f"{name}={'x'.join(map(str, values))}"
        for name, values in lists.items()
        if any(value != unsaid.get(name) for value in values)
    )
    return f", window={{{said}}}"


@rule("reduce_window")
def _reduce_window(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    applied = printer.called(op.attributes["to_apply"])
    return opcode, operands, f"{_window(op.attributes)}, to_apply={applied}"


@rule("select_and_scatter")
def _select_and_scatter(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if is_awkward_selection(op):
        return _selected_by_place(printer, op)
    select, scatter = (printer.called(op.attributes[name]) for name in ("select", "scatter"))
    return opcode, operands, f"{_window(op.attributes)}, select={select}, scatter={scatter}"


def _selected_by_place(printer: Printer, op: XlaOp) -> Written:
    """Selects together with the places of the elements, and scatters to those places."""
    operand, source, init = (printer.operand(o) for o in op.operands)
    shape, windows = array(op), array(op.operands[1])
    scatter = printer.called(op.attributes["scatter"])
    if not shape.rank:
        return "call", f"{init}, {source}", f", to_apply={scatter}"
    count, times = shape.element_count, windows.element_count
    index = pt.s32 if count < 2**31 else pt.s64
    # The places of elements in row-major order; -1 where there is none.
    row = intern_array(index, (count,))
    places = printer.helper(op, "row", row, "iota", "", ", iota_dimension=0")
    places = printer.helper(op, "places", shape.with_element_type(index), "reshape", places)
    nowhere = printer.helper(op, "nowhere", intern_array(index, ()), "constant", "-1")
    selected = windows.with_element_type(index)
    select = printer.own_computation(earliest_selected(op.attributes["select"], index))
    selection = printer.helper(
        op,
        "selection",
        TupleShape([windows, selected]),
        "reduce-window",
        f"{operand}, {places}, {init}, {nowhere}",
        f"{_window(op.attributes)}, to_apply={select}",
    )
    found = printer.helper(op, "selected", selected, "get-tuple-element", selection, ", index=1")
    # What is scattered to nowhere, out of bounds, is dropped.
    where = printer.helper(op, "where", intern_array(index, (times, 1)), "reshape", found)
    flat = intern_array(shape.element_type, (count,))
    begun = printer.helper(op, "begun", flat, "broadcast", init, ", dimensions={}")
    updates = intern_array(shape.element_type, (times,))
    values = printer.helper(op, "values", updates, "reshape", source)
    numbers = (
        ", update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1"
    )
    scattered = printer.helper(
        op,
        "scattered",
        flat,
        "scatter",
        f"{begun}, {where}, {values}",
        f"{numbers}, to_apply={scatter}",
    )
    return "reshape", scattered, ""


def _sort_words(dimension: int, *, is_stable: bool, applied: str) -> str:
    stable = ", is_stable=true" if is_stable else ""
    return f", dimensions={{{dimension}}}{stable}, to_apply={applied}"


@rule("sort")
def _sort(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    dimension, is_stable = op.attributes["dimension"], op.attributes["is_stable"]
    comparator = op.attributes["to_apply"]
    if not is_narrow_sort(op):
        applied = printer.called(comparator)
        return opcode, operands, _sort_words(dimension, is_stable=is_stable, applied=applied)
    values = [printer.operand(o) for o in op.operands]
    shapes = [array(o) for o in op.operands]
    parts = _sorted(printer, op, shapes, values, comparator, dimension, is_stable=is_stable)
    if op.shape.is_array:
        return "copy", parts[0], ""
    return "tuple", ", ".join(parts), ""


def _sorted(
    printer: Printer,
    op: XlaOp,
    shapes: Sequence[ArrayShape],
    values: Sequence[str],
    comparator: XlaComputation,
    dimension: int,
    *,
    is_stable: bool,
    first: int | None = None,
) -> list[str]:
    """Arrays sorted together, each in the type of `sorted_as`; the `first` of each row if given."""
    types = [sorted_as(shape.element_type) for shape in shapes]
    wide = [_retyped(printer, op, *one) for one in zip(values, shapes, types, strict=True)]
    if any(t is not shape.element_type for t, shape in zip(types, shapes, strict=True)):
        comparator = narrowed(comparator, types)
    arrays = [shape.with_element_type(t) for shape, t in zip(shapes, types, strict=True)]
    whole = arrays[0] if len(arrays) == 1 else TupleShape(arrays)
    words = _sort_words(dimension, is_stable=is_stable, applied=printer.own_computation(comparator))
    together = printer.helper(op, "sorted", whole, "sort", ", ".join(wide), words)
    parts = [together]
    if len(arrays) > 1:
        parts = [
            printer.helper(op, "part", shape, "get-tuple-element", together, f", index={index}")
            for index, shape in enumerate(arrays)
        ]
    if first is not None:
        parts = [_first(printer, op, *pair, first) for pair in zip(parts, arrays, strict=True)]
        arrays = [_shortened(shape, first) for shape in arrays]
    return [
        _retyped(printer, op, part, wider, shape.element_type)
        for part, wider, shape in zip(parts, arrays, shapes, strict=True)
    ]


def _shortened(shape: ArrayShape, last: int) -> ArrayShape:
    """The shape with a last dimension of fixed size `last`, as a slice has it."""
    sizes = shape.dimensions[:-1]
    # Of a slice, a bounded size of at most 1 is a fixed one.
    dynamic = [d and n != 1 for d, n in zip(shape.dynamic_dimensions, sizes, strict=False)]
    return intern_array(shape.element_type, (*sizes, last), (*dynamic, False))


def _first(printer: Printer, op: XlaOp, value: str, shape: ArrayShape, count: int) -> str:
    """The first `count` elements along the last dimension."""
    bounds = ", ".join(f"[0:{size}]" for size in (*shape.dimensions[:-1], count))
    return printer.helper(
        op, "first", _shortened(shape, count), "slice", value, f", slice={{{bounds}}}"
    )


def _retyped(printer: Printer, op: XlaOp, value: str, shape: ArrayShape, to: PrimitiveType) -> str:
    """A value between its own type and that of `sorted_as`: converted, floats bit by bit."""
    source = shape.element_type
    if source is to:
        return value
    opcode = "bitcast-convert" if source.is_floating or to.is_floating else "convert"
    return printer.helper(op, "retyped", shape.with_element_type(to), opcode, value)


@rule("top_k")
def _top_k(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    k, largest = op.attributes["k"], op.attributes["largest"]
    if not is_sorted_top_k(op):
        return "topk", operands, f", k={k}, largest=true"
    source = array(op.operands[0])
    numbers, places = _numbered(printer, op, source, operands)
    comparator = in_order((source.element_type, pt.s32), "GT" if largest else "LT")
    pair, values = [source, numbers], [operands, places]
    dimension = source.rank - 1
    parts = _sorted(printer, op, pair, values, comparator, dimension, is_stable=True, first=k)
    return "tuple", ", ".join(parts), ""


def _numbered(printer: Printer, op: XlaOp, shape: ArrayShape, value: str) -> tuple[ArrayShape, str]:
    """0, 1, 2, ... along the last dimension, of the sizes of `value`, bounded ones too."""
    numbers = intern_array(pt.s32, shape.dimensions)
    rest = f", iota_dimension={shape.rank - 1}"
    places = printer.helper(op, "places", numbers, "iota", "", rest)
    for index, is_dynamic in enumerate(shape.dynamic_dimensions):
        if is_dynamic:
            along = f", dimensions={{{index}}}"
            scalar = intern_array(pt.s32, ())
            size = printer.helper(op, "size", scalar, "get-dimension-size", value, along)
            numbers = intern_array(
                pt.s32,
                shape.dimensions,
                tuple(d and i <= index for i, d in enumerate(shape.dynamic_dimensions)),
            )
            pair = f"{places}, {size}"
            places = printer.helper(op, "sized", numbers, "set-dimension-size", pair, along)
    return numbers, places
