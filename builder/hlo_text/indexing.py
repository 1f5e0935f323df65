"""Slices and updates at places known only when it runs, gathers, scatters, in HLO text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from builder import primitive_type as pt
from builder.hlo_text.printer import Printer, Written, rule
from builder.hlo_text.values import array, filled, wide
from builder.hlo_text.words import braces
from builder.literal_text import literal_text
from builder.scatter_form import ScatterForm, scatter_form
from builder.shape import ArrayShape, Shape, TupleShape, intern_array
from builder.xla_op import XlaOp


@rule("dynamic_slice")
def _dynamic_slice(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, f", dynamic_slice_sizes={braces(op.attributes['slice_sizes'])}"


def _numbers(numbers: Any, attributes: Mapping[str, Any]) -> str:
    """The dimension numbers, their fields under their own names, and the promises."""
    rest = ""
    for name in numbers.__slots__:
        value = getattr(numbers, name)
        if name == "index_vector_dim":
            rest += f", {name}={value}"
        elif value or not name.endswith("batching_dims"):
            rest += f", {name}={braces(value)}"
    for name in ("indices_are_sorted", "unique_indices"):
        if attributes.get(name):
            rest += f", {name}=true"
    return rest


@rule("gather")
def _gather(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    numbers = _numbers(op.attributes["dimension_numbers"], op.attributes)
    return opcode, operands, f"{numbers}, slice_sizes={braces(op.attributes['slice_sizes'])}"


@rule("scatter")
def _scatter(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    form = scatter_form(op)
    numbers = op.attributes["dimension_numbers"] if form is None else form.numbers
    rest = f"{_numbers(numbers, op.attributes)}, to_apply="
    rest += printer.called(op.attributes["to_apply"])
    if form is None:
        return opcode, operands, rest
    count = len(op.operands) // 2
    values = [_padded(printer, op, form, index) for index in range(count)]
    values.append(_indices(printer, op, form))
    values += [printer.operand(o) for o in op.operands[count + 1 :]]
    shapes = [form.padded(o.shape, form.marks) for o in op.operands[:count]]
    whole: Shape = shapes[0] if count == 1 else TupleShape(shapes)
    result = printer.helper(op, "padded", whole, opcode, ", ".join(values), rest)
    if count == 1:
        return _cut(printer, op, form, 0, result)
    parts = []
    for index, shape in enumerate(shapes):
        part = printer.helper(op, "part", shape, "get-tuple-element", result, f", index={index}")
        cut = _cut(printer, op, form, index, part)
        parts.append(printer.helper(op, "cut", op.operands[index].shape, *cut))
    return "tuple", ", ".join(parts), ""


def _padded(printer: Printer, op: XlaOp, form: ScatterForm, index: int) -> str:
    """Operand `index` of a scatter, reshaped and padded."""
    operand = op.operands[index]
    value = printer.operand(operand)
    shape = form.reshaped(operand.shape)
    scalar = intern_array(shape.element_type, ())
    if shape is not operand.shape:
        value = printer.helper(op, "reshaped", shape, "reshape", value)

    def pad(value: str, marks: int, number: int, low: Sequence[int], high: Sequence[int]) -> str:
        filler = filled(printer, op, scalar, number)
        padding = "x".join(f"{a}_{b}" for a, b in zip(low, high, strict=True))
        shape = form.padded(operand.shape, marks)
        return printer.helper(op, "pad", shape, "pad", f"{value}, {filler}", f", padding={padding}")

    if any(form.low):
        value = pad(value, 0, 0, form.low, form.high)
    none = [0] * shape.rank
    one = [int(d == form.marked) for d in range(shape.rank)]
    for mark in range(form.marks):
        value = pad(value, mark + 1, index >> mark & 1, none, one)
    return value


def _indices(printer: Printer, op: XlaOp, form: ScatterForm) -> str:
    """The indices of a scatter, moved by the padding."""
    operand = op.operands[len(op.operands) // 2]
    if form.zeros is not None:
        return filled(printer, op, intern_array(pt.s32, form.zeros), 0)
    value, source = printer.operand(operand), array(operand)
    if form.shifts is None:
        return value
    if source.element_type is pt.u64:
        most = filled(printer, op, source, pt.s64.max)
        value = printer.helper(op, "least", source, "minimum", f"{value}, {most}")
    shape = source.with_element_type(pt.s64)
    if source is not shape:
        value = wide(printer, op, value, source, pt.s64)
    least, greatest, moved = (
        _along(printer, op, shape, [shift[i] for shift in form.shifts]) for i in range(3)
    )
    value = printer.helper(op, "clamped", shape, "clamp", f"{least}, {value}, {greatest}")
    return printer.helper(op, "moved", shape, "add", f"{value}, {moved}")


def _along(printer: Printer, op: XlaOp, shape: ArrayShape, numbers: Sequence[int]) -> str:
    """Numbers along the dimension of index vectors, or one number throughout."""
    place = op.attributes["dimension_numbers"].index_vector_dim
    if place == shape.rank:
        return filled(printer, op, shape, numbers[0])
    vector = intern_array(pt.s64, (len(numbers),))
    text = literal_text(np.array(numbers, np.int64), pt.s64)
    value = printer.helper(op, "numbers", vector, "constant", text)
    return printer.helper(op, "spread", shape, "broadcast", value, f", dimensions={{{place}}}")


def _cut(printer: Printer, op: XlaOp, form: ScatterForm, index: int, value: str) -> Written:
    """What is left of a padded result when the padding is cut off again."""
    operand = op.operands[index].shape
    shape = form.reshaped(operand)
    bounds = ", ".join(
        f"[{low}:{low + size}]" for low, size in zip(form.low, form.dimensions, strict=True)
    )
    if form.padded(operand, form.marks) is shape:
        return ("copy" if shape is operand else "reshape"), value, ""
    cut = "slice", value, f", slice={{{bounds}}}"
    if shape is operand:
        return cut
    return "reshape", printer.helper(op, "sliced", shape, *cut), ""
