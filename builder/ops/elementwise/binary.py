"""Elementwise arithmetic and logic of two arrays.

Operation Semantics: Element-wise binary arithmetic operations.
"""

from __future__ import annotations

from typing import Any, Never

from builder.errors import ShapeInferenceError, error_of
from builder.graph.calls import unknown_arguments
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.elementwise.common import element_type_of, record_binary
from builder.ops.operands import Dimensions, Operand
from builder.schema import SCHEMAS


@op_by_hand(SCHEMAS["add"])
def add(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The sum lhs + rhs; the logical or of preds.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.add(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("add", "add", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["subtract"])
def sub(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The difference lhs - rhs.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.sub(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("sub", "subtract", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["multiply"])
def mul(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The product lhs * rhs; the logical and of preds.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.mul(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("mul", "multiply", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["mulhi"])
def mulhi(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The upper half of the bits of the product lhs * rhs; `mul` returns the lower half.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u32[2, 3]), b.parameter(xb.u32[3])
        >>> xb.mulhi(x, v, broadcast_dimensions=[1]).shape
        u32[2,3]

    Not in Operation Semantics; XlaBuilder's Mulhi.
    """
    return record_binary("mulhi", "mulhi", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["divide"])
def div(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The quotient lhs / rhs; rounded toward zero for integers.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.div(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("div", "divide", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["remainder"])
def rem(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The remainder of lhs / rhs, with the sign of lhs; smaller than rhs in magnitude.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.s32[2, 3]), b.parameter(xb.s32[3])
        >>> xb.rem(x, v, broadcast_dimensions=[1]).shape
        s32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("rem", "remainder", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["maximum"])
def max(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The larger operand; NaN if either is NaN.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.max(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    if unknown:
        along = "to reduce along dimensions, use lib.max(x, axis) of builder.lib"
        raise unknown_arguments(max, unknown, along)
    return record_binary("max", "maximum", lhs, rhs, broadcast_dimensions)


@op_by_hand(SCHEMAS["minimum"])
def min(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The smaller operand; NaN if either is NaN.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.min(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    if unknown:
        along = "to reduce along dimensions, use lib.min(x, axis) of builder.lib"
        raise unknown_arguments(min, unknown, along)
    return record_binary("min", "minimum", lhs, rhs, broadcast_dimensions)


@op_by_hand(SCHEMAS["and"])
def and_(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The logical and of preds, the bitwise and of integers.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.pred[2, 3]), b.parameter(xb.pred[3])
        >>> xb.and_(x, v, broadcast_dimensions=[1]).shape
        pred[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("and_", "and", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["or"])
def or_(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The logical or of preds, the bitwise or of integers.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.pred[2, 3]), b.parameter(xb.pred[3])
        >>> xb.or_(x, v, broadcast_dimensions=[1]).shape
        pred[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("or_", "or", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["xor"])
def xor(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The logical exclusive or of preds, the bitwise exclusive or of integers.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u8[2, 3]), b.parameter(xb.u8[3])
        >>> xb.xor(x, v, broadcast_dimensions=[1]).shape
        u8[2,3]

    Not in Operation Semantics; XlaBuilder's Xor.
    """
    return record_binary("xor", "xor", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["power"])
def pow(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """lhs to the power of rhs.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.pow(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Not in Operation Semantics; XlaBuilder's Pow.
    """
    return record_binary("pow", "power", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["atan2"])
def atan2(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The angle of the point (x=rhs, y=lhs) in radians, from -pi to pi.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.atan2(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Not in Operation Semantics; XlaBuilder's Atan2.
    """
    return record_binary("atan2", "atan2", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["shift_left"])
def shift_left(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The bits of lhs shifted left by rhs; 0 if rhs is the width of the type or more.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u8[2, 3]), b.parameter(xb.u8[3])
        >>> xb.shift_left(x, v, broadcast_dimensions=[1]).shape
        u8[2,3]

    Not in Operation Semantics; XlaBuilder's ShiftLeft.
    """
    return record_binary("shift_left", "shift_left", lhs, rhs, broadcast_dimensions, unknown)


@op_by_hand(SCHEMAS["shift_right_arithmetic"])
def shift_right_arithmetic(
    lhs: Operand,
    rhs: Operand,
    broadcast_dimensions: Dimensions = None,
    **unknown: Never,
) -> XlaOp:
    """The bits of lhs shifted right by rhs, filled with the sign bit.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.s8[2, 3]), b.parameter(xb.s8[3])
        >>> xb.shift_right_arithmetic(x, v, broadcast_dimensions=[1]).shape
        s8[2,3]

    Not in Operation Semantics; XlaBuilder's ShiftRightArithmetic.
    """
    return record_binary(
        "shift_right_arithmetic", "shift_right_arithmetic", lhs, rhs, broadcast_dimensions, unknown
    )


@op_by_hand(SCHEMAS["shift_right_logical"])
def shift_right_logical(
    lhs: Operand,
    rhs: Operand,
    broadcast_dimensions: Dimensions = None,
    **unknown: Never,
) -> XlaOp:
    """The bits of lhs shifted right by rhs, filled with 0.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u8[2, 3]), b.parameter(xb.u8[3])
        >>> xb.shift_right_logical(x, v, broadcast_dimensions=[1]).shape
        u8[2,3]

    Not in Operation Semantics; XlaBuilder's ShiftRightLogical.
    """
    return record_binary(
        "shift_right_logical", "shift_right_logical", lhs, rhs, broadcast_dimensions, unknown
    )


@op_by_hand(SCHEMAS["complex"])
def complex(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """The complex number with real part lhs and imaginary part rhs.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.complex(x, v, broadcast_dimensions=[1]).shape
        c64[2,3]

    Not in Operation Semantics; XlaBuilder's Complex.
    """
    return record_binary("complex", "complex", lhs, rhs, broadcast_dimensions, unknown)


def division_operator(lhs: Any, rhs: Any) -> XlaOp:
    """Record ``lhs / rhs``; refuse integers, because Python's ``/`` does not truncate them."""
    operand = lhs if type(lhs) is XlaOp else rhs
    if operand.shape.element_type.is_integral:
        raise error_of(
            ShapeInferenceError,
            "div",
            "the operator / is for floating-point and complex numbers, because the quotient of "
            f"integers is rounded toward zero, got\n  operand {operand.shape}",
            "write xb.div(lhs, rhs) for the rounded quotient, or convert the operands first with "
            "xb.convert_element_type",
            shapes={"operand": operand.shape},
        )
    return record_binary("div", "divide", lhs, rhs, None)


def remainder_operator(lhs: Any, rhs: Any) -> XlaOp:
    """Record ``lhs % rhs`` of unsigned integers; refuse other types, for which Python rounds down.

    The result of XLA's remainder has the sign of `lhs`, and that of Python the sign of `rhs`.
    """
    operand = lhs if type(lhs) is XlaOp else rhs
    if operand.shape.element_type.is_signed:
        raise error_of(
            ShapeInferenceError,
            "rem",
            "the operator % is for unsigned integers, because Python's remainder has the sign of "
            f"rhs, and XLA's has the sign of lhs, got\n  operand {operand.shape}",
            "write xb.rem(lhs, rhs) for the sign of lhs, or "
            "xb.rem(xb.rem(lhs, rhs) + rhs, rhs) for the sign of rhs",
            shapes={"operand": operand.shape},
        )
    return record_binary("rem", "remainder", lhs, rhs, None)


def right_shift_operator(lhs: Any, rhs: Any) -> XlaOp:
    """Record ``lhs >> rhs``: arithmetic for signed integers, logical for unsigned integers."""
    operand = lhs if type(lhs) is XlaOp else rhs
    signed = element_type_of("shift_right", operand).is_signed
    return (shift_right_arithmetic if signed else shift_right_logical)(lhs, rhs)
