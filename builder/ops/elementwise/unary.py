"""Elementwise functions of one array.

Operation Semantics: Element-wise unary functions.
"""

from __future__ import annotations

from builder import shape_inference
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.elementwise.common import (
    BUILDER_H,
    MATH_H,
    UNARY_SECTION,
    record_binary,
    record_unary,
)
from builder.ops.operands import need_op
from builder.types import primitive_type as pt


@op("Abs", opcode="abs", section=UNARY_SECTION)
def abs(operand: XlaOp) -> XlaOp:
    """The absolute value |x|; of complex numbers the modulus.

    Args:
        operand: an array of signed integers, floating point or complex.

    Returns:
        The same sizes; for complex elements the type of their parts.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.abs(xb.XlaBuilder().parameter(xb.c64[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("abs", "abs", operand)


@op("Acos", opcode="acos", section=BUILDER_H)
def acos(operand: XlaOp) -> XlaOp:
    """The inverse cosine, in radians.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.acos(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Acos.
    """
    return record_unary("acos", "acos", operand)


@op("Acosh", opcode="acosh", section=BUILDER_H)
def acosh(operand: XlaOp) -> XlaOp:
    """The inverse hyperbolic cosine.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.acosh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Acosh.
    """
    return record_unary("acosh", "acosh", operand)


@op("Asin", opcode="asin", section=BUILDER_H)
def asin(operand: XlaOp) -> XlaOp:
    """The inverse sine, in radians.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.asin(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Asin.
    """
    return record_unary("asin", "asin", operand)


@op("Asinh", opcode="asinh", section=BUILDER_H)
def asinh(operand: XlaOp) -> XlaOp:
    """The inverse hyperbolic sine.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.asinh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Asinh.
    """
    return record_unary("asinh", "asinh", operand)


@op("Atanh", opcode="atanh", section=BUILDER_H)
def atanh(operand: XlaOp) -> XlaOp:
    """The inverse hyperbolic tangent.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.atanh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Atanh.
    """
    return record_unary("atanh", "atanh", operand)


@op("Cbrt", opcode="cbrt", section=UNARY_SECTION)
def cbrt(operand: XlaOp) -> XlaOp:
    """The cubic root.

    Args:
        operand: an array of floating point.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.cbrt(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("cbrt", "cbrt", operand)


@op("Ceil", opcode="ceil", section=UNARY_SECTION)
def ceil(operand: XlaOp) -> XlaOp:
    """The smallest whole number that is not less than x.

    Args:
        operand: an array of floating point.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.ceil(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("ceil", "ceil", operand)


@op("Clz", opcode="count_leading_zeros", section=BUILDER_H)
def clz(operand: XlaOp) -> XlaOp:
    """The number of zero bits above the highest bit that is set; the width of the type for 0.

    Args:
        operand: an array of integers.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.clz(xb.XlaBuilder().parameter(xb.u8[3])).shape
        u8[3]

    Not in the document; XlaBuilder's Clz.
    """
    return record_unary("clz", "count_leading_zeros", operand)


@op("Cos", opcode="cosine", section=UNARY_SECTION)
def cos(operand: XlaOp) -> XlaOp:
    """The cosine of an angle in radians.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.cos(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("cos", "cosine", operand)


@op("Cosh", opcode="cosh", section=BUILDER_H)
def cosh(operand: XlaOp) -> XlaOp:
    """The hyperbolic cosine.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.cosh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Cosh.
    """
    return record_unary("cosh", "cosh", operand)


@op("Erf", opcode="erf", section=BUILDER_H)
def erf(operand: XlaOp) -> XlaOp:
    """The error function.

    Args:
        operand: an array of floating point.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.erf(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Erf.
    """
    return record_unary("erf", "erf", operand)


@op("Exp", opcode="exponential", section=UNARY_SECTION)
def exp(operand: XlaOp) -> XlaOp:
    """The exponential function e^x.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.exp(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("exp", "exponential", operand)


@op("Expm1", opcode="exponential_minus_one", section=BUILDER_H)
def expm1(operand: XlaOp) -> XlaOp:
    """e^x - 1, exact for x near 0.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.expm1(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Expm1.
    """
    return record_unary("expm1", "exponential_minus_one", operand)


@op("Floor", opcode="floor", section=UNARY_SECTION)
def floor(operand: XlaOp) -> XlaOp:
    """The largest whole number that is not greater than x.

    Args:
        operand: an array of floating point.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.floor(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("floor", "floor", operand)


@op("Imag", opcode="imag", section=UNARY_SECTION)
def imag(operand: XlaOp) -> XlaOp:
    """The imaginary part; 0 for real floating-point numbers.

    Args:
        operand: an array of floating point or complex.

    Returns:
        The same sizes; for complex elements the type of their parts.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.imag(xb.XlaBuilder().parameter(xb.c64[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("imag", "imag", operand)


@op("IsFinite", opcode="is_finite", section=UNARY_SECTION)
def is_finite(operand: XlaOp) -> XlaOp:
    """Whether an element is neither infinite nor NaN.

    Args:
        operand: an array of floating point.

    Returns:
        Preds of the same sizes.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.is_finite(xb.XlaBuilder().parameter(xb.f32[3])).shape
        pred[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("is_finite", "is_finite", operand)


@op("Log", opcode="log", section=UNARY_SECTION)
def log(operand: XlaOp) -> XlaOp:
    """The natural logarithm.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.log(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("log", "log", operand)


@op("Log1p", opcode="log_plus_one", section=BUILDER_H)
def log1p(operand: XlaOp) -> XlaOp:
    """ln(1 + x), exact for x near 0.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.log1p(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Log1p.
    """
    return record_unary("log1p", "log_plus_one", operand)


@op("Logistic", opcode="logistic", section=UNARY_SECTION)
def logistic(operand: XlaOp) -> XlaOp:
    """The logistic function 1 / (1 + e^-x).

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.logistic(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("logistic", "logistic", operand)


@op("Neg", opcode="negate", section=UNARY_SECTION)
def neg(operand: XlaOp) -> XlaOp:
    """The negated number -x; of unsigned integers modulo 2^bits.

    Args:
        operand: an array of integers, floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.neg(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("neg", "negate", operand)


@op("Not", opcode="not", section=UNARY_SECTION)
def not_(operand: XlaOp) -> XlaOp:
    """The logical not of preds, the bitwise not of integers.

    Args:
        operand: an array of pred or integers.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.not_(xb.XlaBuilder().parameter(xb.pred[3])).shape
        pred[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("not_", "not", operand)


@op("PopulationCount", opcode="popcnt", section=UNARY_SECTION)
def population_count(operand: XlaOp) -> XlaOp:
    """The number of bits that are set.

    Args:
        operand: an array of integers.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.population_count(xb.XlaBuilder().parameter(xb.u8[3])).shape
        u8[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("population_count", "popcnt", operand)


@op("Real", opcode="real", section=UNARY_SECTION)
def real(operand: XlaOp) -> XlaOp:
    """The real part; of real floating-point numbers the number itself.

    Args:
        operand: an array of floating point or complex.

    Returns:
        The same sizes; for complex elements the type of their parts.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.real(xb.XlaBuilder().parameter(xb.c64[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("real", "real", operand)


@op("Round", opcode="round_nearest_afz", section=UNARY_SECTION)
def round(operand: XlaOp) -> XlaOp:
    """The nearest whole number, halves away from zero.

    Args:
        operand: an array of floating point.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.round(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("round", "round_nearest_afz", operand)


@op("RoundNearestEven", opcode="round_nearest_even", section=UNARY_SECTION)
def round_nearest_even(operand: XlaOp) -> XlaOp:
    """The nearest whole number, halves to the even one.

    Args:
        operand: an array of floating point.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.round_nearest_even(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("round_nearest_even", "round_nearest_even", operand)


@op("Rsqrt", opcode="rsqrt", section=UNARY_SECTION)
def rsqrt(operand: XlaOp) -> XlaOp:
    """The reciprocal of the square root, 1 / sqrt(x).

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.rsqrt(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("rsqrt", "rsqrt", operand)


@op("Sign", opcode="sign", section=UNARY_SECTION)
def sign(operand: XlaOp) -> XlaOp:
    """-1, 0 or 1 by the sign of x; -0 of -0 and NaN of NaN; x / |x| of complex numbers.

    Args:
        operand: an array of signed integers, floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.sign(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("sign", "sign", operand)


@op("Sin", opcode="sine", section=BUILDER_H)
def sin(operand: XlaOp) -> XlaOp:
    """The sine of an angle in radians.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.sin(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Sin.
    """
    return record_unary("sin", "sine", operand)


@op("Sinh", opcode="sinh", section=BUILDER_H)
def sinh(operand: XlaOp) -> XlaOp:
    """The hyperbolic sine.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.sinh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Sinh.
    """
    return record_unary("sinh", "sinh", operand)


@op("Sqrt", opcode="sqrt", section=UNARY_SECTION)
def sqrt(operand: XlaOp) -> XlaOp:
    """The square root.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.sqrt(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("sqrt", "sqrt", operand)


@op("Tan", opcode="tan", section=BUILDER_H)
def tan(operand: XlaOp) -> XlaOp:
    """The tangent of an angle in radians.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.tan(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XlaBuilder's Tan.
    """
    return record_unary("tan", "tan", operand)


@op("Tanh", opcode="tanh", section=UNARY_SECTION)
def tanh(operand: XlaOp) -> XlaOp:
    """The hyperbolic tangent.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.tanh(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: Element-wise unary functions.
    """
    return record_unary("tanh", "tanh", operand)


@op("Atan", opcode="atan2", section=MATH_H)
def atan(operand: XlaOp) -> XlaOp:
    """The inverse tangent, in radians; recorded as ``atan2(operand, 1)``.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.atan(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Not in the document; XLA's client library, math.h.
    """
    return record_binary("atan", "atan2", need_op("atan", "operand", operand), 1, None)


@op("Square", opcode="multiply", section=MATH_H)
def square(operand: XlaOp) -> XlaOp:
    """The product of each element with itself; recorded as ``mul(operand, operand)``.

    Args:
        operand: an array.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array.

    Example:
        >>> import builder as xb
        >>> xb.square(xb.XlaBuilder().parameter(xb.f32[3])).opcode
        'multiply'

    Not in the document; XLA's client library, math.h.
    """
    return record_binary("square", "multiply", need_op("square", "operand", operand), operand, None)


@op("Reciprocal", opcode="divide", section=MATH_H)
def reciprocal(operand: XlaOp) -> XlaOp:
    """One divided by each element; recorded as ``div(1, operand)``.

    Args:
        operand: an array of floating point or complex.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.reciprocal(xb.XlaBuilder().parameter(xb.f32[3])).opcode
        'divide'

    Not in the document; XLA's client library, math.h.
    """
    check = shape_inference.Check(
        "reciprocal", operand=need_op("reciprocal", "operand", operand).shape
    )
    element_type = check.array("operand").element_type
    check.that(
        element_type.is_floating or element_type.is_complex,
        f"operand must be of floating-point or complex type, got {element_type}",
        fix="use xb.div for integers",
    )
    return record_binary("reciprocal", "divide", 1, operand, None)


@op("Conj", opcode="complex", section=BUILDER_H)
def conj(operand: XlaOp) -> XlaOp:
    """The complex conjugate; recorded as ``complex(real(x), neg(imag(x)))``.

    Args:
        operand: an array of c64, c128, f32 or f64.

    Returns:
        An array of the same sizes, of c64 or c128.

    Raises:
        ShapeInferenceError: the operand is no array, or of another element type.

    Example:
        >>> import builder as xb
        >>> xb.conj(xb.XlaBuilder().parameter(xb.c64[3])).shape
        c64[3]

    Not in the document; XLA's client library.
    """
    check = shape_inference.Check("conj", operand=need_op("conj", "operand", operand).shape)
    part = check.array("operand").element_type.real_type
    if part not in (pt.f32, pt.f64):
        check.fail(f"operand must be of c64, c128, f32 or f64 type, got {part}")
    return record_binary(
        "conj",
        "complex",
        record_unary("conj", "real", operand),
        record_unary("conj", "negate", record_unary("conj", "imag", operand)),
        None,
    )
