"""Sets of element types that operands may have, and the comparison types of element types."""

from __future__ import annotations

from typing import Final, NamedTuple

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType


class ElementTypes(NamedTuple):
    """A set of element types.

    Attributes:
        text: the name of the set in messages and in the reference: "pred or integer".
        types: the members.
    """

    text: str
    types: frozenset[PrimitiveType]


_PRED = frozenset((pt.pred,))
_INTEGER = frozenset(t for t in pt.ALL if t.is_integral)
_SIGNED = frozenset(t for t in _INTEGER if t.is_signed)
_FLOATING = frozenset(t for t in pt.ALL if t.is_floating)
_COMPLEX = frozenset(t for t in pt.ALL if t.is_complex)

ANY: Final = ElementTypes("any", frozenset(pt.ALL))
PRED: Final = ElementTypes("pred", _PRED)
INTEGER: Final = ElementTypes("integer", _INTEGER)
UNSIGNED: Final = ElementTypes("unsigned integer", _INTEGER - _SIGNED)
S32: Final = ElementTypes("s32", frozenset((pt.s32,)))
S32_OR_S64: Final = ElementTypes("s32 or s64", frozenset((pt.s32, pt.s64)))
FLOATING: Final = ElementTypes("floating-point", _FLOATING)
COMPLEX: Final = ElementTypes("complex", _COMPLEX)
PRED_OR_INTEGER: Final = ElementTypes("pred or integer", _PRED | _INTEGER)
ORDERED: Final = ElementTypes("pred, integer or floating-point", _PRED | _INTEGER | _FLOATING)
REAL_NUMBER: Final = ElementTypes("integer or floating-point", _INTEGER | _FLOATING)
NUMBER: Final = ElementTypes("integer, floating-point or complex", _INTEGER | _FLOATING | _COMPLEX)
SIGNED_NUMBER: Final = ElementTypes(
    "signed integer, floating-point or complex", _SIGNED | _FLOATING | _COMPLEX
)
FLOATING_OR_COMPLEX: Final = ElementTypes("floating-point or complex", _FLOATING | _COMPLEX)
PART_OF_COMPLEX: Final = ElementTypes("f32 or f64", frozenset((pt.f32, pt.f64)))


def comparison_type(element_type: PrimitiveType, *, total_order: bool = False) -> str:
    """Return HLO's comparison type; `total_order` affects floating-point types only."""
    if element_type.is_floating:
        return "TOTALORDER" if total_order else "FLOAT"
    if element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"
