"""Elementwise functions of one array.

Operation Semantics: Element-wise unary functions.
"""

from __future__ import annotations

from typing import Never

from builder.attributes import ResultAccuracyLike
from builder.graph.calls import unknown_arguments
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops import rules as shape_inference
from builder.ops.elementwise.binary import complex, or_
from builder.ops.elementwise.common import record_binary, record_unary
from builder.ops.elementwise.comparison import ne
from builder.ops.elementwise.selection import select
from builder.ops.operands import need_op
from builder.schema import MATH_H, SCHEMAS
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape


@op_by_hand(SCHEMAS["abs"])
def abs(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The absolute value |x|; the modulus of a complex number.

    Example:
        >>> import builder as xb
        >>> xb.abs(xb.XlaBuilder().parameter(xb.c64[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("abs", "abs", operand, None, unknown)


@op_by_hand(SCHEMAS["acos"])
def acos(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The inverse cosine in radians, from 0 to pi; NaN for real numbers outside [-1, 1].

    Example:
        >>> import builder as xb
        >>> xb.acos(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Acos.
    """
    return record_unary("acos", "acos", operand, None, unknown)


@op_by_hand(SCHEMAS["acosh"])
def acosh(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The inverse hyperbolic cosine ln(x + sqrt(x^2 - 1)); NaN for real numbers below 1.

    Example:
        >>> import builder as xb
        >>> xb.acosh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Acosh.
    """
    return record_unary("acosh", "acosh", operand, None, unknown)


@op_by_hand(SCHEMAS["asin"])
def asin(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The inverse sine in radians, from -pi/2 to pi/2; NaN for real numbers outside [-1, 1].

    Example:
        >>> import builder as xb
        >>> xb.asin(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Asin.
    """
    return record_unary("asin", "asin", operand, None, unknown)


@op_by_hand(SCHEMAS["asinh"])
def asinh(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The inverse hyperbolic sine ln(x + sqrt(x^2 + 1)).

    Example:
        >>> import builder as xb
        >>> xb.asinh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Asinh.
    """
    return record_unary("asinh", "asinh", operand, None, unknown)


@op_by_hand(SCHEMAS["atanh"])
def atanh(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The inverse hyperbolic tangent ln((1 + x) / (1 - x)) / 2; NaN for real x outside [-1, 1].

    Example:
        >>> import builder as xb
        >>> xb.atanh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Atanh.
    """
    return record_unary("atanh", "atanh", operand, None, unknown)


@op_by_hand(SCHEMAS["cbrt"])
def cbrt(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """The cube root; negative for negative x.

    Example:
        >>> import builder as xb
        >>> xb.cbrt(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("cbrt", "cbrt", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["ceil"])
def ceil(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The smallest integer that is not less than x.

    Example:
        >>> import builder as xb
        >>> xb.ceil(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("ceil", "ceil", operand, None, unknown)


@op_by_hand(SCHEMAS["count_leading_zeros"])
def clz(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The number of zero bits above the highest set bit; the width of the type for 0.

    Example:
        >>> import builder as xb
        >>> xb.clz(xb.XlaBuilder().parameter(xb.u8[3])).shape
        u8[3]

    Not in Operation Semantics; XlaBuilder's Clz.
    """
    return record_unary("clz", "count_leading_zeros", operand, None, unknown)


@op_by_hand(SCHEMAS["cosine"])
def cos(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """The cosine of an angle in radians.

    Example:
        >>> import builder as xb
        >>> xb.cos(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("cos", "cosine", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["cosh"])
def cosh(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The hyperbolic cosine (e^x + e^-x) / 2.

    Example:
        >>> import builder as xb
        >>> xb.cosh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Cosh.
    """
    return record_unary("cosh", "cosh", operand, None, unknown)


@op_by_hand(SCHEMAS["erf"])
def erf(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The error function, 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.

    Example:
        >>> import builder as xb
        >>> xb.erf(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Erf.
    """
    return record_unary("erf", "erf", operand, None, unknown)


@op_by_hand(SCHEMAS["exponential"])
def exp(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """The exponential function e^x.

    Example:
        >>> import builder as xb
        >>> xb.exp(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("exp", "exponential", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["exponential_minus_one"])
def expm1(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """e^x - 1, accurate for x near 0.

    Example:
        >>> import builder as xb
        >>> xb.expm1(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Expm1.
    """
    return record_unary("expm1", "exponential_minus_one", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["floor"])
def floor(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The largest integer that is not greater than x.

    Example:
        >>> import builder as xb
        >>> xb.floor(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("floor", "floor", operand, None, unknown)


@op_by_hand(SCHEMAS["imag"])
def imag(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The imaginary part; 0 for real numbers.

    Example:
        >>> import builder as xb
        >>> xb.imag(xb.XlaBuilder().parameter(xb.c64[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("imag", "imag", operand, None, unknown)


@op_by_hand(SCHEMAS["is_finite"])
def is_finite(operand: XlaOp, **unknown: Never) -> XlaOp:
    """Whether x is neither infinite nor NaN.

    Example:
        >>> import builder as xb
        >>> xb.is_finite(xb.XlaBuilder().parameter(xb.f32[3])).shape
        pred[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("is_finite", "is_finite", operand, None, unknown)


@op_by_hand(SCHEMAS["log"])
def log(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """The natural logarithm ln(x); -inf for 0, and NaN for negative real numbers.

    Example:
        >>> import builder as xb
        >>> xb.log(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("log", "log", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["log_plus_one"])
def log1p(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """ln(1 + x), accurate for x near 0.

    Example:
        >>> import builder as xb
        >>> xb.log1p(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Log1p.
    """
    return record_unary("log1p", "log_plus_one", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["logistic"])
def logistic(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """The logistic function 1 / (1 + e^-x).

    Example:
        >>> import builder as xb
        >>> xb.logistic(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("logistic", "logistic", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["negate"])
def neg(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The negated number -x; modulo 2^bits for unsigned integers.

    Example:
        >>> import builder as xb
        >>> xb.neg(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("neg", "negate", operand, None, unknown)


@op_by_hand(SCHEMAS["not"])
def not_(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The logical not of preds, the bitwise not of integers.

    Example:
        >>> import builder as xb
        >>> xb.not_(xb.XlaBuilder().parameter(xb.pred[3])).shape
        pred[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("not_", "not", operand, None, unknown)


@op_by_hand(SCHEMAS["popcnt"])
def population_count(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The number of set bits.

    Example:
        >>> import builder as xb
        >>> xb.population_count(xb.XlaBuilder().parameter(xb.u8[3])).shape
        u8[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("population_count", "popcnt", operand, None, unknown)


@op_by_hand(SCHEMAS["real"])
def real(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The real part; x itself for real numbers.

    Example:
        >>> import builder as xb
        >>> xb.real(xb.XlaBuilder().parameter(xb.c64[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("real", "real", operand, None, unknown)


@op_by_hand(SCHEMAS["round_nearest_afz"])
def round(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The nearest integer; halves are rounded away from zero.

    Example:
        >>> import builder as xb
        >>> xb.round(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("round", "round_nearest_afz", operand, None, unknown)


@op_by_hand(SCHEMAS["round_nearest_even"])
def round_nearest_even(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The nearest integer; halves are rounded to the even integer.

    Example:
        >>> import builder as xb
        >>> xb.round_nearest_even(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("round_nearest_even", "round_nearest_even", operand, None, unknown)


@op_by_hand(SCHEMAS["rsqrt"])
def rsqrt(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """The reciprocal of the square root, 1 / sqrt(x).

    Example:
        >>> import builder as xb
        >>> xb.rsqrt(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("rsqrt", "rsqrt", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["sign"])
def sign(operand: XlaOp, **unknown: Never) -> XlaOp:
    """-1, 0 or 1 by the sign of x; -0 for -0, NaN for NaN; x / |x| for complex numbers.

    Example:
        >>> import builder as xb
        >>> xb.sign(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("sign", "sign", operand, None, unknown)


@op_by_hand(SCHEMAS["sine"])
def sin(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """The sine of an angle in radians.

    Example:
        >>> import builder as xb
        >>> xb.sin(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Sin.
    """
    return record_unary("sin", "sine", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["sinh"])
def sinh(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The hyperbolic sine (e^x - e^-x) / 2.

    Example:
        >>> import builder as xb
        >>> xb.sinh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Sinh.
    """
    return record_unary("sinh", "sinh", operand, None, unknown)


@op_by_hand(SCHEMAS["sqrt"])
def sqrt(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """The square root; NaN for negative real numbers.

    Example:
        >>> import builder as xb
        >>> xb.sqrt(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("sqrt", "sqrt", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["tan"])
def tan(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """The tangent of an angle in radians.

    Example:
        >>> import builder as xb
        >>> xb.tan(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's Tan.
    """
    return record_unary("tan", "tan", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["tanh"])
def tanh(operand: XlaOp, result_accuracy: ResultAccuracyLike = None, **unknown: Never) -> XlaOp:
    """The hyperbolic tangent.

    Example:
        >>> import builder as xb
        >>> xb.tanh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("tanh", "tanh", operand, result_accuracy, unknown)


@op_by_hand(SCHEMAS["atan2"], cpp_name="Atan", section=MATH_H)
def atan(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The inverse tangent in radians, recorded as ``atan2(operand, 1)``.

    For complex numbers, where XLA's atan2 is NaN at large and imaginary ones, it is recorded as
    `atanh` of the number with its parts exchanged.

    Example:
        >>> import builder as xb
        >>> xb.atan(xb.XlaBuilder().parameter(xb.f32[3])).opcode
        'atan2'

    Not in Operation Semantics; XLA's client library, math.h.
    """
    if unknown:
        raise unknown_arguments(atan, unknown)
    source = need_op("atan", "operand", operand)
    if isinstance(source.shape, ArrayShape) and source.shape.element_type.is_complex:
        return _complex_atan(source)
    return record_binary("atan", "atan2", source, 1, None)


def _complex_atan(z: XlaOp) -> XlaOp:
    """Return atan(x + iy) = v + iu, where atanh(y + ix) = u + iv."""
    x, y = real(z), imag(z)
    exchanged = atanh(complex(y, x))
    u, v = real(exchanged), imag(exchanged)
    # XLA's atanh has an angle of pi / 2 at NaNs.
    is_nan = or_(ne(x, x), ne(u, u))
    return complex(select(is_nan, float("nan"), v), u)


@op_by_hand(SCHEMAS["multiply"], cpp_name="Square", section=MATH_H)
def square(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The square x * x, recorded as ``mul(operand, operand)``.

    Example:
        >>> import builder as xb
        >>> xb.square(xb.XlaBuilder().parameter(xb.f32[3])).opcode
        'multiply'

    Not in Operation Semantics; XLA's client library, math.h.
    """
    if unknown:
        raise unknown_arguments(square, unknown)
    return record_binary("square", "multiply", need_op("square", "operand", operand), operand, None)


@op_by_hand(SCHEMAS["divide"], cpp_name="Reciprocal", section=MATH_H)
def reciprocal(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The reciprocal 1 / x of a floating-point or complex number, recorded as ``div(1, operand)``.

    Example:
        >>> import builder as xb
        >>> xb.reciprocal(xb.XlaBuilder().parameter(xb.f32[3])).opcode
        'divide'

    Not in Operation Semantics; XLA's client library, math.h.
    """
    if unknown:
        raise unknown_arguments(reciprocal, unknown)
    check = shape_inference.Check(
        "reciprocal", operand=need_op("reciprocal", "operand", operand).shape
    )
    element_type = check.array("operand").element_type
    # Not in XLA: there the reciprocals of most integers are 0.
    check.that(
        element_type.is_floating or element_type.is_complex,
        f"operand must be of floating-point or complex type, got {element_type}",
        fix="use xb.div for integers",
    )
    return record_binary("reciprocal", "divide", 1, operand, None)


@op_by_hand(SCHEMAS["complex"], cpp_name="Conj")
def conj(operand: XlaOp, **unknown: Never) -> XlaOp:
    """The complex conjugate, recorded as ``complex(real(x), neg(imag(x)))``.

    The operand is of type c64, c128, f32 or f64; the result is complex.

    Example:
        >>> import builder as xb
        >>> xb.conj(xb.XlaBuilder().parameter(xb.c64[3])).shape
        c64[3]

    Not in Operation Semantics; XLA's client library.
    """
    if unknown:
        raise unknown_arguments(conj, unknown)
    check = shape_inference.Check("conj", operand=need_op("conj", "operand", operand).shape)
    part = check.array("operand").element_type.real_type
    # Not in XLA: checked here, so that the message names conj.
    if part not in (pt.f32, pt.f64):
        check.fail(f"operand must be of c64, c128, f32 or f64 type, got {part}")
    return record_binary(
        "conj",
        "complex",
        record_unary("conj", "real", operand),
        record_unary("conj", "negate", record_unary("conj", "imag", operand)),
        None,
    )
