"""Elementwise functions of one array.

Operation Semantics: Element-wise unary functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from builder.attributes import ResultAccuracyLike
from builder.checking import Check
from builder.graph.recording import record
from builder.graph.xla_op import XlaOp
from builder.ops.definition import op
from builder.ops.elementwise.binary import atan2, complex, div, or_
from builder.ops.elementwise.common import (
    APPROXIMATED,
    EXACT,
    ORDERING,
    PERIODIC,
    ROOT,
    SIGN,
    SMOOTH,
    STEEP,
    Computed,
    define_elementwise,
    result_type,
)
from builder.ops.elementwise.comparison import ne
from builder.ops.elementwise.selection import select
from builder.schema import BUILDER_H, MATH_H, SCHEMAS, Attribute, ResultType, Schema
from builder.schema.definition import (
    FLOATING,
    FLOATING_OR_COMPLEX,
    INTEGER,
    NUMBER,
    PRED_OR_INTEGER,
    SIGNED_NUMBER,
    ElementTypes,
)
from builder.schema.kinds import ACCURACY
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, Shape, of_same_sizes

F = TypeVar("F", bound=Callable[..., Any])

_SECTION: Final = "Element-wise unary functions"


def _unary_shape(name: str, schema: Schema) -> Callable[[Shape], ArrayShape]:
    """Return the shape inference of the function `name`."""

    def shape(operand: Shape) -> ArrayShape:
        check = Check(name, operand=operand)
        array = check.array("operand")
        # Operation Semantics: Element-wise unary functions; the section of the schema
        check.element_type("operand", schema.element_types["operand"])
        return of_same_sizes(array, result_type(schema, array.element_type))

    return shape


def unary(
    opcode: str, element_types: ElementTypes, computed: Computed, section: str, **data: Any
) -> Callable[[F], F]:
    """Return a decorator that makes the body of a function of one array.

    The arguments are those of `define_elementwise`.
    """
    schema = define_elementwise(opcode, "operand", element_types, computed, section, **data)

    def enter(declared: F) -> F:
        rule = _unary_shape(declared.__name__, schema)
        return op(schema, rule, family="elementwise")(declared)

    return enter


def _function(
    opcode: str, element_types: ElementTypes, computed: Computed, section: str, **data: Any
) -> Callable[[F], F]:
    """Return the decorator of a function whose StableHLO operation has a result accuracy.

    HLO has one for CHLO's functions too, which CHLO can't express.
    """
    accuracy = Attribute("result_accuracy", ACCURACY, omitted=None, absent=None)
    return unary(opcode, element_types, computed, section, attributes=(accuracy,), **data)


def _chlo(opcode: str, element_types: ElementTypes) -> Callable[[F], F]:
    """Return the decorator of a function that is an operation of CHLO."""
    names = {"stablehlo": f"chlo.{opcode}", "synonyms": (f"mhlo.{opcode}",)}
    return unary(opcode, element_types, STEEP, BUILDER_H, **names)


# The modulus of a complex number needs a square root.
@unary("abs", SIGNED_NUMBER, APPROXIMATED, _SECTION, result=ResultType.REAL_PART)
def abs(operand: XlaOp) -> XlaOp:
    """The absolute value |x|; the modulus of a complex number.

    Example:
        >>> import builder as xb
        >>> xb.abs(xb.XlaBuilder().parameter(xb.c64[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@_chlo("acos", FLOATING_OR_COMPLEX)
def acos(operand: XlaOp) -> XlaOp:
    """The inverse cosine in radians, from 0 to pi; NaN for real numbers outside [-1, 1].

    Example:
        >>> import builder as xb
        >>> xb.acos(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Acos.
    """


@_chlo("acosh", FLOATING_OR_COMPLEX)
def acosh(operand: XlaOp) -> XlaOp:
    """The inverse hyperbolic cosine ln(x + sqrt(x^2 - 1)); NaN for real numbers below 1.

    Example:
        >>> import builder as xb
        >>> xb.acosh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Acosh.
    """


@_chlo("asin", FLOATING_OR_COMPLEX)
def asin(operand: XlaOp) -> XlaOp:
    """The inverse sine in radians, from -pi/2 to pi/2; NaN for real numbers outside [-1, 1].

    Example:
        >>> import builder as xb
        >>> xb.asin(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Asin.
    """


@_chlo("asinh", FLOATING_OR_COMPLEX)
def asinh(operand: XlaOp) -> XlaOp:
    """The inverse hyperbolic sine ln(x + sqrt(x^2 + 1)).

    Example:
        >>> import builder as xb
        >>> xb.asinh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Asinh.
    """


@_chlo("atanh", FLOATING_OR_COMPLEX)
def atanh(operand: XlaOp) -> XlaOp:
    """The inverse hyperbolic tangent ln((1 + x) / (1 - x)) / 2; NaN for real x outside [-1, 1].

    Example:
        >>> import builder as xb
        >>> xb.atanh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Atanh.
    """


# StableHLO's specification admits complex cube roots; no XLA backend compiles them.
@_function("cbrt", FLOATING, ROOT, _SECTION)
def cbrt(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """The cube root; negative for negative x.

    Example:
        >>> import builder as xb
        >>> xb.cbrt(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("ceil", FLOATING, ORDERING, _SECTION)
def ceil(operand: XlaOp) -> XlaOp:
    """The smallest integer that is not less than x.

    Example:
        >>> import builder as xb
        >>> xb.ceil(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("count_leading_zeros", INTEGER, EXACT, BUILDER_H, cpp_name="Clz")
def clz(operand: XlaOp) -> XlaOp:
    """The number of zero bits above the highest set bit; the width of the type for 0.

    Example:
        >>> import builder as xb
        >>> xb.clz(xb.XlaBuilder().parameter(xb.u8[3])).shape
        u8[3]

    Not in Operation Semantics; XlaBuilder's Clz.
    """


@_function("cosine", FLOATING_OR_COMPLEX, PERIODIC, _SECTION, cpp_name="Cos")
def cos(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """The cosine of an angle in radians.

    Example:
        >>> import builder as xb
        >>> xb.cos(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@_chlo("cosh", FLOATING_OR_COMPLEX)
def cosh(operand: XlaOp) -> XlaOp:
    """The hyperbolic cosine (e^x + e^-x) / 2.

    Example:
        >>> import builder as xb
        >>> xb.cosh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Cosh.
    """


@_chlo("erf", FLOATING)
def erf(operand: XlaOp) -> XlaOp:
    """The error function, 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.

    Example:
        >>> import builder as xb
        >>> xb.erf(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Erf.
    """


@_function("exponential", FLOATING_OR_COMPLEX, SMOOTH, _SECTION, cpp_name="Exp")
def exp(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """The exponential function e^x.

    Example:
        >>> import builder as xb
        >>> xb.exp(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@_function("exponential_minus_one", FLOATING_OR_COMPLEX, STEEP, BUILDER_H, cpp_name="Expm1")
def expm1(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """e^x - 1, accurate for x near 0.

    Example:
        >>> import builder as xb
        >>> xb.expm1(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Expm1.
    """


@unary("floor", FLOATING, ORDERING, _SECTION)
def floor(operand: XlaOp) -> XlaOp:
    """The largest integer that is not greater than x.

    Example:
        >>> import builder as xb
        >>> xb.floor(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("imag", FLOATING_OR_COMPLEX, EXACT, _SECTION, result=ResultType.REAL_PART)
def imag(operand: XlaOp) -> XlaOp:
    """The imaginary part; 0 for real numbers.

    Example:
        >>> import builder as xb
        >>> xb.imag(xb.XlaBuilder().parameter(xb.c64[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("is_finite", FLOATING, EXACT, _SECTION, result=ResultType.PRED)
def is_finite(operand: XlaOp) -> XlaOp:
    """Whether x is neither infinite nor NaN.

    Example:
        >>> import builder as xb
        >>> xb.is_finite(xb.XlaBuilder().parameter(xb.f32[3])).shape
        pred[3]

    Operation Semantics: Element-wise unary functions.
    """


@_function("log", FLOATING_OR_COMPLEX, SMOOTH, _SECTION)
def log(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """The natural logarithm ln(x); -inf for 0, and NaN for negative real numbers.

    Example:
        >>> import builder as xb
        >>> xb.log(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@_function("log_plus_one", FLOATING_OR_COMPLEX, STEEP, BUILDER_H, cpp_name="Log1p")
def log1p(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """ln(1 + x), accurate for x near 0.

    Example:
        >>> import builder as xb
        >>> xb.log1p(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Log1p.
    """


@_function("logistic", FLOATING_OR_COMPLEX, SMOOTH, _SECTION)
def logistic(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """The logistic function 1 / (1 + e^-x).

    Example:
        >>> import builder as xb
        >>> xb.logistic(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("negate", NUMBER, EXACT, _SECTION, cpp_name="Neg")
def neg(operand: XlaOp) -> XlaOp:
    """The negated number -x; modulo 2^bits for unsigned integers.

    Example:
        >>> import builder as xb
        >>> xb.neg(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("not", PRED_OR_INTEGER, EXACT, _SECTION)
def not_(operand: XlaOp) -> XlaOp:
    """The logical not of preds, the bitwise not of integers.

    Example:
        >>> import builder as xb
        >>> xb.not_(xb.XlaBuilder().parameter(xb.pred[3])).shape
        pred[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("popcnt", INTEGER, EXACT, _SECTION, cpp_name="PopulationCount")
def population_count(operand: XlaOp) -> XlaOp:
    """The number of set bits.

    Example:
        >>> import builder as xb
        >>> xb.population_count(xb.XlaBuilder().parameter(xb.u8[3])).shape
        u8[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("real", FLOATING_OR_COMPLEX, EXACT, _SECTION, result=ResultType.REAL_PART)
def real(operand: XlaOp) -> XlaOp:
    """The real part; x itself for real numbers.

    Example:
        >>> import builder as xb
        >>> xb.real(xb.XlaBuilder().parameter(xb.c64[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("round_nearest_afz", FLOATING, ORDERING, _SECTION, cpp_name="Round")
def round(operand: XlaOp) -> XlaOp:
    """The nearest integer; halves are rounded away from zero.

    Example:
        >>> import builder as xb
        >>> xb.round(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("round_nearest_even", FLOATING, ORDERING, _SECTION)
def round_nearest_even(operand: XlaOp) -> XlaOp:
    """The nearest integer; halves are rounded to the even integer.

    Example:
        >>> import builder as xb
        >>> xb.round_nearest_even(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@_function("rsqrt", FLOATING_OR_COMPLEX, ROOT, _SECTION)
def rsqrt(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """The reciprocal of the square root, 1 / sqrt(x).

    Example:
        >>> import builder as xb
        >>> xb.rsqrt(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@unary("sign", SIGNED_NUMBER, SIGN, _SECTION)
def sign(operand: XlaOp) -> XlaOp:
    """-1, 0 or 1 by the sign of x; -0 for -0, NaN for NaN; x / |x| for complex numbers.

    Example:
        >>> import builder as xb
        >>> xb.sign(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@_function("sine", FLOATING_OR_COMPLEX, PERIODIC, BUILDER_H, cpp_name="Sin")
def sin(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """The sine of an angle in radians.

    Example:
        >>> import builder as xb
        >>> xb.sin(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Sin.
    """


@_chlo("sinh", FLOATING_OR_COMPLEX)
def sinh(operand: XlaOp) -> XlaOp:
    """The hyperbolic sine (e^x - e^-x) / 2.

    Example:
        >>> import builder as xb
        >>> xb.sinh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Sinh.
    """


@_function("sqrt", FLOATING_OR_COMPLEX, ROOT, _SECTION)
def sqrt(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """The square root; NaN for negative real numbers.

    Example:
        >>> import builder as xb
        >>> xb.sqrt(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


@_function("tan", FLOATING_OR_COMPLEX, STEEP, BUILDER_H, synonyms=("chlo.tan", "mhlo.tan"))
def tan(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """The tangent of an angle in radians.

    Example:
        >>> import builder as xb
        >>> xb.tan(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Tan.
    """


@_function("tanh", FLOATING_OR_COMPLEX, PERIODIC, _SECTION)
def tanh(operand: XlaOp, result_accuracy: ResultAccuracyLike = None) -> XlaOp:
    """The hyperbolic tangent.

    Example:
        >>> import builder as xb
        >>> xb.tanh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """


# The functions below have a form of their own: each records another function's op, or several.


@per_signature
def _atan_shape(operand: Shape) -> ArrayShape:
    check = Check("atan", operand=operand)
    # Not in XLA: checked here, so that the message names atan.
    check.element_type("operand", FLOATING_OR_COMPLEX)
    return check.array("operand").with_layout(None)


def _record_atan(_: str, operand: XlaOp) -> XlaOp:
    if not _atan_shape(operand.shape).element_type.is_complex:
        return atan2(operand, 1)
    # atan(x + iy) = v + iu, where atanh(y + ix) = u + iv
    x, y = real(operand), imag(operand)
    exchanged = atanh(complex(y, x))
    u, v = real(exchanged), imag(exchanged)
    # XLA's atanh has an angle of pi / 2 at NaNs.
    is_nan = or_(ne(x, x), ne(u, u))
    return complex(select(is_nan, float("nan"), v), u)


@op(SCHEMAS["atan2"], _atan_shape, by=_record_atan, cpp_name="Atan", section=MATH_H)
def atan(operand: XlaOp) -> XlaOp:
    """The inverse tangent in radians, recorded as ``atan2(operand, 1)``.

    For complex numbers, where XLA's atan2 is NaN at large and imaginary ones, it is recorded as
    `atanh` of the number with its parts exchanged.

    Example:
        >>> import builder as xb
        >>> xb.atan(xb.XlaBuilder().parameter(xb.f32[3])).opcode
        'atan2'

    Not in Operation Semantics; XLA's client library, math.h.
    """


@per_signature
def _square_shape(operand: Shape) -> ArrayShape:
    return Check("square", operand=operand).array("operand").with_layout(None)


def _record_square(_: str, operand: XlaOp) -> XlaOp:
    return record("multiply", _square_shape(operand.shape), (operand, operand), depth=3)


@op(SCHEMAS["multiply"], _square_shape, by=_record_square, cpp_name="Square", section=MATH_H)
def square(operand: XlaOp) -> XlaOp:
    """The square x * x, recorded as ``mul(operand, operand)``.

    Example:
        >>> import builder as xb
        >>> xb.square(xb.XlaBuilder().parameter(xb.f32[3])).opcode
        'multiply'

    Not in Operation Semantics; XLA's client library, math.h.
    """


@per_signature
def _reciprocal_shape(operand: Shape) -> ArrayShape:
    check = Check("reciprocal", operand=operand)
    # Not in XLA: there the reciprocals of most integers are 0.
    check.element_type("operand", FLOATING_OR_COMPLEX, fix="use xb.div for integers")
    return check.array("operand").with_layout(None)


def _record_reciprocal(_: str, operand: XlaOp) -> XlaOp:
    _reciprocal_shape(operand.shape)
    return div(1, operand)


@op(
    SCHEMAS["divide"],
    _reciprocal_shape,
    by=_record_reciprocal,
    cpp_name="Reciprocal",
    section=MATH_H,
)
def reciprocal(operand: XlaOp) -> XlaOp:
    """The reciprocal 1 / x of a floating-point or complex number, recorded as ``div(1, operand)``.

    Example:
        >>> import builder as xb
        >>> xb.reciprocal(xb.XlaBuilder().parameter(xb.f32[3])).opcode
        'divide'

    Not in Operation Semantics; XLA's client library, math.h.
    """


@per_signature
def _conj_shape(operand: Shape) -> ArrayShape:
    check = Check("conj", operand=operand)
    array = check.array("operand")
    part = array.element_type.real_type
    # Not in XLA: checked here, so that the message names conj.
    if part not in (pt.f32, pt.f64):
        check.fail("operand must be of c64, c128, f32 or f64 type", got=part)
    return array.with_element_type(part.complex_type or part).with_layout(None)


def _record_conj(_: str, operand: XlaOp) -> XlaOp:
    _conj_shape(operand.shape)
    return complex(real(operand), neg(imag(operand)))


@op(SCHEMAS["complex"], _conj_shape, by=_record_conj, cpp_name="Conj")
def conj(operand: XlaOp) -> XlaOp:
    """The complex conjugate, recorded as ``complex(real(x), neg(imag(x)))``.

    The operand is of type c64, c128, f32 or f64; the result is complex.

    Example:
        >>> import builder as xb
        >>> xb.conj(xb.XlaBuilder().parameter(xb.c64[3])).shape
        c64[3]

    Not in Operation Semantics; XLA's client library.
    """
