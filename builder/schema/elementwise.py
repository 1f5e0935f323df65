"""Elementwise ops: each element of the result is computed from one element of each operand."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from builder.schema.definition import BUILDER_H, Attribute, CostClass, Group, ResultType, define
from builder.schema.element_types import (
    ANY,
    FLOATING,
    FLOATING_OR_COMPLEX,
    INTEGER,
    NUMBER,
    ORDERED,
    PART_OF_COMPLEX,
    PRED,
    PRED_OR_INTEGER,
    REAL_NUMBER,
    SIGNED_NUMBER,
    UNSIGNED,
    ElementTypes,
)
from builder.schema.kinds import ACCURACY, COMPUTATION, INTEGER32, INTEGERS, Enumeration
from builder.schema.tolerance import APPLIED_ONCE, EXACT, Tolerance

_UNARY: Final = "Element-wise unary functions"
_BINARY: Final = "Element-wise binary arithmetic operations"


def _within(ulps: float, complex_ulps: float = 0) -> Tolerance:
    return Tolerance(ulps, complex_ulps, flushes=True)


# The cost of an opcode, and its tolerance: 1 ulp if IEEE 754 requires correct rounding, since
# hardware may compute in another precision and round again; 2 if hardware approximates; more for
# functions, whose accuracy StableHLO leaves to the implementation. Complex numbers are computed
# from functions and products of their parts, which may cancel.
_Computed = tuple[CostClass, Tolerance]
_EXACT: _Computed = CostClass.ELEMENTWISE, EXACT
_ORDERING: _Computed = CostClass.ELEMENTWISE, _within(0)
_SIGN: _Computed = CostClass.ELEMENTWISE, _within(0, 16)
_ROUNDED: _Computed = CostClass.ELEMENTWISE, _within(1, 8)
_APPROXIMATED: _Computed = CostClass.ELEMENTWISE, _within(2, 16)
_ROOT: _Computed = CostClass.TRANSCENDENTAL, _within(2, 16)
_SMOOTH: _Computed = CostClass.TRANSCENDENTAL, _within(8, 64)
_PERIODIC: _Computed = CostClass.TRANSCENDENTAL, _within(8, 256)
_STEEP: _Computed = CostClass.TRANSCENDENTAL, _within(16, 256)


def _elementwise(
    operands: str,
    opcode: str,
    element_types: ElementTypes,
    computed: _Computed,
    section: str,
    *,
    attributes: tuple[Attribute, ...] = (),
    result: ResultType = ResultType.OPERAND,
    cpp_name: str = "",
    stablehlo: str = "",
    synonyms: tuple[str, ...] = (),
) -> None:
    cost, tolerance = computed
    define(
        opcode,
        operands,
        attributes,
        cpp_name=cpp_name,
        section=section,
        element_types=dict.fromkeys(operands.split(), element_types),
        result=result,
        stablehlo=stablehlo,
        synonyms=synonyms,
        cost=cost,
        tolerance=tolerance,
    )


_unary = partial(_elementwise, "operand")
_binary = partial(_elementwise, "lhs rhs")

# The functions whose StableHLO operations have a result accuracy. HLO has one for CHLO's functions
# too, which CHLO can't express.
_function = partial(
    _unary, attributes=(Attribute("result_accuracy", ACCURACY, omitted=None, absent=None),)
)


def _chlo(opcode: str, element_types: ElementTypes) -> None:
    chlo, mhlo = f"chlo.{opcode}", f"mhlo.{opcode}"
    _unary(opcode, element_types, _STEEP, BUILDER_H, stablehlo=chlo, synonyms=(mhlo,))


# The modulus of a complex number needs a square root.
_unary("abs", SIGNED_NUMBER, _APPROXIMATED, _UNARY, result=ResultType.REAL_PART)
_chlo("acos", FLOATING_OR_COMPLEX)
_chlo("acosh", FLOATING_OR_COMPLEX)
_chlo("asin", FLOATING_OR_COMPLEX)
_chlo("asinh", FLOATING_OR_COMPLEX)
_chlo("atanh", FLOATING_OR_COMPLEX)
# StableHLO's specification admits complex cube roots; no XLA backend compiles them.
_function("cbrt", FLOATING, _ROOT, _UNARY)
_unary("ceil", FLOATING, _ORDERING, _UNARY)
_chlo("cosh", FLOATING_OR_COMPLEX)
_function("cosine", FLOATING_OR_COMPLEX, _PERIODIC, _UNARY, cpp_name="Cos")
_unary("count_leading_zeros", INTEGER, _EXACT, BUILDER_H, cpp_name="Clz")
_chlo("erf", FLOATING)
_function("exponential", FLOATING_OR_COMPLEX, _SMOOTH, _UNARY, cpp_name="Exp")
_function("exponential_minus_one", FLOATING_OR_COMPLEX, _STEEP, BUILDER_H, cpp_name="Expm1")
_unary("floor", FLOATING, _ORDERING, _UNARY)
_unary("imag", FLOATING_OR_COMPLEX, _EXACT, _UNARY, result=ResultType.REAL_PART)
_unary("is_finite", FLOATING, _EXACT, _UNARY, result=ResultType.PRED)
_function("log", FLOATING_OR_COMPLEX, _SMOOTH, _UNARY)
_function("log_plus_one", FLOATING_OR_COMPLEX, _STEEP, BUILDER_H, cpp_name="Log1p")
_function("logistic", FLOATING_OR_COMPLEX, _SMOOTH, _UNARY)
_unary("negate", NUMBER, _EXACT, _UNARY, cpp_name="Neg")
_unary("not", PRED_OR_INTEGER, _EXACT, _UNARY)
_unary("popcnt", INTEGER, _EXACT, _UNARY, cpp_name="PopulationCount")
_unary("real", FLOATING_OR_COMPLEX, _EXACT, _UNARY, result=ResultType.REAL_PART)
_unary("round_nearest_afz", FLOATING, _ORDERING, _UNARY, cpp_name="Round")
_unary("round_nearest_even", FLOATING, _ORDERING, _UNARY)
_function("rsqrt", FLOATING_OR_COMPLEX, _ROOT, _UNARY)
_unary("sign", SIGNED_NUMBER, _SIGN, _UNARY)
_function("sine", FLOATING_OR_COMPLEX, _PERIODIC, BUILDER_H, cpp_name="Sin")
_chlo("sinh", FLOATING_OR_COMPLEX)
_function("sqrt", FLOATING_OR_COMPLEX, _ROOT, _UNARY)
_function("tan", FLOATING_OR_COMPLEX, _STEEP, BUILDER_H, synonyms=("chlo.tan", "mhlo.tan"))
_function("tanh", FLOATING_OR_COMPLEX, _PERIODIC, _UNARY)

_binary("add", ANY, _ROUNDED, _BINARY)
_binary("and", PRED_OR_INTEGER, _EXACT, _BINARY)
_binary("atan2", FLOATING_OR_COMPLEX, _SMOOTH, BUILDER_H)
_binary("complex", PART_OF_COMPLEX, _EXACT, BUILDER_H, result=ResultType.COMPLEX)
_binary("divide", NUMBER, _APPROXIMATED, _BINARY, cpp_name="Div")
_binary("maximum", ORDERED, _ORDERING, _BINARY, cpp_name="Max")
_binary("minimum", ORDERED, _ORDERING, _BINARY, cpp_name="Min")
_binary(
    "mulhi",
    INTEGER,
    _EXACT,
    BUILDER_H,
    stablehlo="chlo.mulhi",
    synonyms=("mhlo.mulhi",),
)
_binary("multiply", ANY, _ROUNDED, _BINARY, cpp_name="Mul")
_binary("or", PRED_OR_INTEGER, _EXACT, _BINARY)
_binary("power", NUMBER, _STEEP, BUILDER_H, cpp_name="Pow")
_binary("remainder", REAL_NUMBER, _APPROXIMATED, _BINARY, cpp_name="Rem")
_binary("shift_left", INTEGER, _EXACT, BUILDER_H)
_binary("shift_right_arithmetic", INTEGER, _EXACT, BUILDER_H)
_binary("shift_right_logical", INTEGER, _EXACT, BUILDER_H)
_binary("subtract", NUMBER, _ROUNDED, _BINARY, cpp_name="Sub")
_binary("xor", PRED_OR_INTEGER, _EXACT, BUILDER_H)


def _order(op: Any) -> str:
    """Return the HLO text of the comparison type.

    The text is empty unless the comparison type is TOTALORDER: HLO infers the other comparison
    types from the element type.
    """
    return ", type=TOTALORDER" if op.attributes["compare_type"] == "TOTALORDER" else ""


define(
    "compare",
    "lhs rhs",
    (
        Attribute(
            "comparison_direction",
            Enumeration("comparison_direction"),
            "direction",
            parameter="direction",
        ),
        Attribute(
            "compare_type",
            Enumeration("comparison_type"),
            None,
            parameter="total_order",
            argument=lambda compare_type: compare_type == "TOTALORDER",
        ),
        Group(_order),
    ),
    section="Element-wise comparison operations",
    element_types={"lhs": ANY, "rhs": ANY},
    cost=CostClass.ELEMENTWISE,
    tolerance=_within(0),
)
define(
    "clamp",
    "min operand max",
    element_types={"min": ORDERED, "operand": ORDERED, "max": ORDERED},
    cost=CostClass.ELEMENTWISE,
    tolerance=_within(0),
)
define(
    "select",
    "pred on_true on_false",
    element_types={"pred": PRED, "on_true": ANY, "on_false": ANY},
    cost=CostClass.ELEMENTWISE,
)
define(
    "map",
    "*operands",
    (
        Attribute("dimensions", INTEGERS),
        Attribute("to_apply", COMPUTATION, parameter="computation"),
    ),
    element_types={"operands": ANY},
    cost=CostClass.RULE,
    tolerance=APPLIED_ONCE,
)
define(
    "convert",
    "operand",
    cpp_name="ConvertElementType",
    element_types={"operand": ANY},
    cost=CostClass.ELEMENTWISE,
    tolerance=_within(1, 2),
)
define(
    "bitcast_convert",
    "operand",
    cpp_name="BitcastConvertType",
    element_types={"operand": ANY},
    cost=CostClass.ELEMENTWISE,
)
define(
    "stochastic_convert",
    "operand random",
    cpp_name="StochasticConvertType",
    section=BUILDER_H,
    element_types={"operand": FLOATING, "random": UNSIGNED},
    stablehlo="mhlo.stochastic_convert",
    cost=CostClass.ELEMENTWISE,
)
define(
    "reduce_precision",
    "operand",
    (Attribute("exponent_bits", INTEGER32), Attribute("mantissa_bits", INTEGER32)),
    element_types={"operand": FLOATING},
    cost=CostClass.ELEMENTWISE,
    tolerance=_within(1, 2),
)
