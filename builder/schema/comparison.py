"""Comparison types, and the element types that a comparison accepts."""

from __future__ import annotations

from builder.schema.element_types import ANY, ORDERED, ElementTypes
from builder.types.primitive_type import PrimitiveType


def comparable(direction: str, *, total_order: bool = False) -> ElementTypes:
    """Return the element types that can be compared: complex numbers only for equality.

    Args:
        direction: "EQ", "NE", "GE", "GT", "LE" or "LT".
        total_order: whether the total order of floating-point numbers is used.
    """
    return ANY if direction in ("EQ", "NE") and not total_order else ORDERED


def comparison_type(element_type: PrimitiveType, *, total_order: bool = False) -> str:
    """Return HLO's comparison type; `total_order` affects floating-point types only."""
    if element_type.is_floating:
        return "TOTALORDER" if total_order else "FLOAT"
    if element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"
