"""Values that the printer writes of its own, in front of an op, where XLA needs other words."""

from __future__ import annotations

import numpy as np

from builder import primitive_type as pt
from builder.hlo_text.printer import Printer, Written
from builder.literal_text import literal_text
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, intern_array
from builder.workarounds import widens_four_bits
from builder.xla_op import XlaOp

__all__ = ["array", "filled", "wide", "widened", "word", "wrapped"]


def array(op: XlaOp) -> ArrayShape:
    assert isinstance(op.shape, ArrayShape)  # inference has said so
    return op.shape


def word(bits: int) -> PrimitiveType:
    return pt.from_name(f"u{bits}")


def filled(printer: Printer, op: XlaOp, shape: ArrayShape, number: int) -> str:
    """An array of one number throughout."""
    scalar = intern_array(shape.element_type, ())
    value = np.array(number).astype(scalar.element_type.dtype)
    text = literal_text(value, scalar.element_type)
    one = printer.helper(op, f"number{number}", scalar, "constant", text)
    if not shape.rank:
        return one
    return printer.helper(op, f"all{number}", shape, "broadcast", one, ", dimensions={}")


def widened(printer: Printer, op: XlaOp, to: PrimitiveType) -> str:
    """The operands, converted to a type that holds all of their values."""
    return ", ".join(wide(printer, op, printer.operand(o), array(o), to) for o in op.operands)


def wide(printer: Printer, op: XlaOp, value: str, source: ArrayShape, to: PrimitiveType) -> str:
    """A value converted to a type that holds all of its values."""
    shape = source.with_element_type(to)
    converted = printer.helper(op, "wide", shape, "convert", value)
    if not widens_four_bits(source.element_type, to):
        return converted
    return printer.helper(op, "wrapped", shape, *wrapped(printer, op, converted, shape))


def wrapped(printer: Printer, op: XlaOp, wide: str, shape: ArrayShape) -> Written:
    """A value of 8 bits made one of 4 again: shifted up and down."""
    four = filled(printer, op, shape, 4)
    up = printer.helper(op, "up", shape, "shift-left", f"{wide}, {four}")
    down = "arithmetic" if shape.element_type.is_signed else "logical"
    return f"shift-right-{down}", f"{up}, {four}", ""
