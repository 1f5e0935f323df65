"""Computations that the library records itself: the default comparators of sorts.

They are recorded without shape inference, and have no source lines.
"""

from __future__ import annotations

from builder.graph.computation import XlaComputation
from builder.graph.recording import append, shared_attributes
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.schema.definition import comparison_type
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array

_PRED = intern_array(pt.pred, ())


@per_signature
def default_comparator(scalars: tuple[ArrayShape, ...]) -> XlaComputation:
    """Return a comparator that sorts the first operand in ascending order.

    Its parameters have the shapes `scalars`, two for each operand of the sort.

    Floating-point numbers are compared in their total order, complex numbers by the real part and
    then by the imaginary part.
    """
    builder = XlaBuilder("compare_less_than")
    parameters = [
        builder.parameter(scalar, f"p.{number // 2}.{'rhs' if number % 2 else 'lhs'}")
        for number, scalar in enumerate(scalars)
    ]
    lhs, rhs = parameters[:2]
    element_type = scalars[0].element_type
    if not element_type.is_complex:
        root = _compared(lhs, rhs, "LT")
    else:
        part = intern_array(element_type.real_type, ())
        real, other_real = (append(builder, "real", part, (value,)) for value in (lhs, rhs))
        imag, other_imag = (append(builder, "imag", part, (value,)) for value in (lhs, rhs))
        conditions = _compared(real, other_real, "EQ"), _compared(imag, other_imag, "LT")
        is_before_by_imag = append(builder, "and", _PRED, conditions)
        is_before_by_real = _compared(real, other_real, "LT")
        root = append(builder, "or", _PRED, (is_before_by_real, is_before_by_imag))
    for op in builder.ops:
        op._code, op._lasti = None, 0
    return builder.build(root)


def _compared(lhs: XlaOp, rhs: XlaOp, direction: str) -> XlaOp:
    """Record a comparison of two scalars, except complex; floating-point numbers by total order."""
    kind = comparison_type(lhs.shape.element_type, total_order=True)
    attributes = shared_attributes(comparison_direction=direction, compare_type=kind)
    return append(lhs.builder, "compare", _PRED, (lhs, rhs), attributes)
