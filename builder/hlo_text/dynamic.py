"""Sizes known only when it runs, in HLO text."""

from __future__ import annotations

from builder import primitive_type as pt
from builder.bounded_sizes import ReshapedSize, broadcast_sizes, reshaped_sizes
from builder.hlo_text.printer import Printer, Written, rule
from builder.shape import ArrayShape, intern_array
from builder.xla_op import XlaOp

__all__ = ["at_bounds", "with_sizes_of_broadcast", "with_sizes_of_reshape"]

_SIZE = intern_array(pt.s32, ())


@rule("get_dimension_size", "set_dimension_size")
def _dimension_size(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    return opcode, operands, f", dimensions={{{op.attributes['dimension']}}}"


@rule("dynamic_reshape")
def _dynamic_reshape(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Written:
    if op.shape.is_static:
        # HLO's verifier, too, wants a bound; the sizes say nothing new.
        return "reshape", printer.operand(op.operands[0]), ""
    return opcode, operands, ""


def with_sizes_of_reshape(printer: Printer, op: XlaOp, operand: str) -> Written:
    """A reshape to several bounded sizes, which are worked out."""
    source, shape = op.operands[0].shape, op.shape
    assert isinstance(source, ArrayShape)  # inference has said so
    assert isinstance(shape, ArrayShape)
    sizes = []
    for size in reshaped_sizes(source, shape) or ():
        if not isinstance(size, ReshapedSize):
            sizes.append(_constant(printer, op, size))
            continue
        product = _constant(printer, op, size.factor)
        for place in size.dimensions:
            part = _size_of(printer, op, operand, place)
            product = printer.helper(op, "product", _SIZE, "multiply", f"{product}, {part}")
        divisor = _constant(printer, op, size.divisor)
        sizes.append(printer.helper(op, "size", _SIZE, "divide", f"{product}, {divisor}"))
    return "dynamic-reshape", ", ".join([operand, *sizes]), ""


def at_bounds(printer: Printer, op: XlaOp, value: str, shape: ArrayShape) -> str:
    """A value with the bounds as its sizes, which leaves all elements where they are."""
    marks = list(shape.dynamic_dimensions)
    for place, dynamic in enumerate(shape.dynamic_dimensions):
        if dynamic:
            marks[place] = False
            step = intern_array(shape.element_type, shape.dimensions, tuple(marks))
            written = _sized(value, _constant(printer, op, shape.dimensions[place]), place)
            value = printer.helper(op, "fixed", step, *written)
    return value


def with_sizes_of_broadcast(printer: Printer, op: XlaOp, value: str, operand: str) -> Written:
    """A broadcast of several bounded sizes, from its value of fixed sizes."""
    shape = op.shape
    assert isinstance(shape, ArrayShape)  # inference has said so
    marks = [False] * shape.rank
    written: Written = "", "", ""
    for place, origin in broadcast_sizes(op).items():
        if written[0]:
            step = intern_array(shape.element_type, shape.dimensions, tuple(marks))
            value = printer.helper(op, "sized", step, *written)
        if origin is None:
            size = _constant(printer, op, shape.dimensions[place])
        else:
            size = _size_of(printer, op, operand, origin)
        written = _sized(value, size, place)
        marks[place] = True
    return written


def _sized(value: str, size: str, dimension: int) -> Written:
    return "set-dimension-size", f"{value}, {size}", f", dimensions={{{dimension}}}"


def _size_of(printer: Printer, op: XlaOp, value: str, dimension: int) -> str:
    rest = f", dimensions={{{dimension}}}"
    return printer.helper(op, "size", _SIZE, "get-dimension-size", value, rest)


def _constant(printer: Printer, op: XlaOp, size: int) -> str:
    return printer.helper(op, "bound", _SIZE, "constant", str(size))
