"""Computations that the library records itself: the default orders of sorts.

They are recorded without inference, and have no source lines.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType

from builder.graph.computation import XlaComputation
from builder.graph.recording import append
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import intern_array

__all__ = ["in_order"]

_PRED = intern_array(pt.pred, ())


def _built(builder: XlaBuilder, root: XlaOp) -> XlaComputation:
    for one in builder.ops:
        one.code, one.lasti = None, 0
    return builder.build(root)


def _compared(lhs: XlaOp, rhs: XlaOp, direction: str) -> XlaOp:
    """A comparison of scalars that are not complex, in the total order of floating point."""
    element_type = lhs.shape.element_type
    if element_type.is_floating:
        kind = "TOTALORDER"
    else:
        kind = "SIGNED" if element_type.is_signed else "UNSIGNED"
    attributes = MappingProxyType({"comparison_direction": direction, "compare_type": kind})
    return append(lhs.builder, "compare", _PRED, (lhs, rhs), attributes)


@lru_cache(maxsize=4096)
def in_order(element_types: tuple[PrimitiveType, ...], direction: str = "LT") -> XlaComputation:
    """A comparator for arrays of these types, which compares the elements of the first alone.

    Floating point is compared in its total order, complex numbers by the real and then the
    imaginary part.

    Args:
        element_types: one for each array.
        direction: "LT" for the smallest first, "GT" for the largest.
    """
    builder = XlaBuilder("compare_less_than" if direction == "LT" else "compare_greater_than")
    parameters = [
        builder.parameter(intern_array(element_type, ()), f"p.{number}.{side}")
        for number, element_type in enumerate(element_types)
        for side in ("lhs", "rhs")
    ]
    lhs, rhs = parameters[:2]
    if not element_types[0].is_complex:
        return _built(builder, _compared(lhs, rhs, direction))
    part = intern_array(element_types[0].real_type, ())
    real, other_real = (append(builder, "real", part, (value,)) for value in (lhs, rhs))
    imag, other_imag = (append(builder, "imag", part, (value,)) for value in (lhs, rhs))
    tie = (_compared(real, other_real, "EQ"), _compared(imag, other_imag, direction))
    broken = append(builder, "and", _PRED, tie)
    decided = _compared(real, other_real, direction)
    return _built(builder, append(builder, "or", _PRED, (decided, broken)))
