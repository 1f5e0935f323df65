"""Element-wise ops: opcodes that compute each element of the result by itself."""

from __future__ import annotations

from typing import Any

from builder.schema.definition import Attribute, CostClass, Group, Schema, define
from builder.schema.kinds import INTEGER32, Enumeration

_EXACT = (CostClass.ELEMENTWISE, 0)
_ROUNDED = (CostClass.ELEMENTWISE, 1)
_ROOT = (CostClass.TRANSCENDENTAL, 2)
_SMOOTH = (CostClass.TRANSCENDENTAL, 8)
_STEEP = (CostClass.TRANSCENDENTAL, 16)

# By opcode the cost, and the ulps by which results may differ: 1 for what IEEE 754 rounds
# correctly, 2 where hardware approximates, more for functions, which StableHLO leaves open.
_UNARY: dict[str, tuple[CostClass, float]] = {
    "abs": (CostClass.ELEMENTWISE, 2),  # of complex numbers a root
    "bitcast_convert": _EXACT,
    "ceil": _EXACT,
    "convert": _ROUNDED,
    "count_leading_zeros": _EXACT,
    "floor": _EXACT,
    "imag": _EXACT,
    "is_finite": _EXACT,
    "negate": _EXACT,
    "not": _EXACT,
    "popcnt": _EXACT,
    "real": _EXACT,
    "round_nearest_afz": _EXACT,
    "round_nearest_even": _EXACT,
    "sign": _EXACT,
    **dict.fromkeys(("sqrt", "rsqrt", "cbrt"), _ROOT),
    **dict.fromkeys(("exponential", "log", "sine", "cosine", "tanh", "logistic"), _SMOOTH),
    **dict.fromkeys(("exponential_minus_one", "log_plus_one", "tan"), _STEEP),
}
for _opcode, (_cost, _ulps) in _UNARY.items():
    define(Schema(_opcode, "operand", cost=_cost, ulps=_ulps))

# StableHLO has none of these.
for _opcode in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh"):
    define(Schema(_opcode, "operand", stablehlo=f"chlo.{_opcode}", cost=_STEEP[0], ulps=_STEEP[1]))

_BINARY: dict[str, tuple[CostClass, float]] = {
    "add": _ROUNDED,
    "and": _EXACT,
    "atan2": _SMOOTH,
    "complex": _EXACT,
    "divide": (CostClass.ELEMENTWISE, 2),
    "maximum": _EXACT,
    "minimum": _EXACT,
    "multiply": _ROUNDED,
    "or": _EXACT,
    "power": _STEEP,
    "remainder": (CostClass.ELEMENTWISE, 2),
    "shift_left": _EXACT,
    "shift_right_arithmetic": _EXACT,
    "shift_right_logical": _EXACT,
    "subtract": _ROUNDED,
    "xor": _EXACT,
}
for _opcode, (_cost, _ulps) in _BINARY.items():
    define(Schema(_opcode, "lhs rhs", cost=_cost, ulps=_ulps))

define(Schema("mulhi", "lhs rhs", stablehlo="chlo.mulhi", cost=CostClass.ELEMENTWISE))
define(Schema("select", "pred on_true on_false", cost=CostClass.ELEMENTWISE))
define(Schema("clamp", "min operand max", cost=CostClass.ELEMENTWISE))


def _order(op: Any) -> str:
    """The element type implies the other kinds of comparison."""
    return ", type=TOTALORDER" if op.attributes["compare_type"] == "TOTALORDER" else ""


define(
    Schema(
        "compare",
        "lhs rhs",
        (
            Attribute("comparison_direction", Enumeration("comparison_direction"), "direction"),
            Attribute("compare_type", Enumeration("comparison_type"), None),
            Group(_order),
        ),
        cost=CostClass.ELEMENTWISE,
    )
)
define(
    Schema(
        "reduce_precision",
        "operand",
        (Attribute("exponent_bits", INTEGER32), Attribute("mantissa_bits", INTEGER32)),
        cost=CostClass.ELEMENTWISE,
        ulps=1,
    )
)
