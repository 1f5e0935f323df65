"""The printer rule for constants in HLO text."""

from __future__ import annotations

from typing import Any

import numpy as np

from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Instruction, Printer, rule
from builder.types.literal_text import literal_text, splat_value
from builder.types.shape import ArrayShape, intern_array


@rule("constant")
def _constant(printer: Printer, op: XlaOp, name: str, operands: str) -> Instruction:
    array: np.ndarray[Any, Any] = op.attributes["value"]
    assert isinstance(op.shape, ArrayShape)
    value = splat_value(array)
    if value is None:
        return _literal(printer, op, op.shape, array)
    # A broadcast scalar, because a literal has every element.
    scalar = intern_array(op.shape.element_type, ())
    reference = printer.helper(op, "value", scalar, *_literal(printer, op, scalar, value))
    return "broadcast", reference, ", dimensions={}"


def _literal(
    printer: Printer, op: XlaOp, shape: ArrayShape, array: np.ndarray[Any, Any]
) -> Instruction:
    element_type = shape.element_type
    if not element_type.is_complex or not np.isnan(array).any():
        return "constant", literal_text(array, element_type), ""
    # XLA's parser makes both parts NaN if the real part is, and drops the payload of the imaginary
    # part. So real and imaginary parts are separate constants.
    half = shape.with_element_type(element_type.real_type)
    parts = [
        printer.helper(op, part, half, "constant", literal_text(values, half.element_type))
        for part, values in (("real", array.real), ("imag", array.imag))
    ]
    return "complex", ", ".join(parts), ""
