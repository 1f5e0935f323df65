"""Elementwise arithmetic and logic of two arrays.

Operation Semantics: Element-wise binary arithmetic operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.elementwise.common import (
    BINARY_SECTION,
    BUILDER_H,
    element_type_of,
    record_binary,
)
from builder.ops.operands import Number


@op("Add", opcode="add", section=BINARY_SECTION)
def add(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The sum lhs + rhs; of preds the logical or.

    Args:
        lhs, rhs: arrays of one element type: any type. One of them may be a Python number that
            the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.add(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("add", "add", lhs, rhs, broadcast_dimensions)


@op("Sub", opcode="subtract", section=BINARY_SECTION)
def sub(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The difference lhs - rhs.

    Args:
        lhs, rhs: arrays of one element type: integers, floating point or complex. One of them
            may be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.sub(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("sub", "subtract", lhs, rhs, broadcast_dimensions)


@op("Mul", opcode="multiply", section=BINARY_SECTION)
def mul(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The product lhs * rhs; of preds the logical and.

    Args:
        lhs, rhs: arrays of one element type: any type. One of them may be a Python number that
            the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.mul(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("mul", "multiply", lhs, rhs, broadcast_dimensions)


@op("Mulhi", opcode="mulhi", section=BUILDER_H)
def mulhi(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The upper half of the product lhs * rhs, of twice as many bits; `mul` gives the lower half.

    Args:
        lhs, rhs: arrays of one element type: integers. One of them may be a Python number that
            the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u32[2, 3]), b.parameter(xb.u32[3])
        >>> xb.mulhi(x, v, broadcast_dimensions=[1]).shape
        u32[2,3]

    Not in the document; XlaBuilder's Mulhi.
    """
    return record_binary("mulhi", "mulhi", lhs, rhs, broadcast_dimensions)


@op("Div", opcode="divide", section=BINARY_SECTION)
def div(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The quotient lhs / rhs; of integers rounded toward zero.

    Args:
        lhs, rhs: arrays of one element type: integers, floating point or complex. One of them
            may be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.div(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("div", "divide", lhs, rhs, broadcast_dimensions)


@op("Rem", opcode="remainder", section=BINARY_SECTION)
def rem(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The remainder of lhs / rhs, with the sign of lhs and less than rhs in magnitude.

    Args:
        lhs, rhs: arrays of one element type: integers or floating point. One of them may be a
            Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.s32[2, 3]), b.parameter(xb.s32[3])
        >>> xb.rem(x, v, broadcast_dimensions=[1]).shape
        s32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("rem", "remainder", lhs, rhs, broadcast_dimensions)


@op("Max", opcode="maximum", section=BINARY_SECTION)
def max(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The greater of the two; NaN where one is NaN.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.max(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("max", "maximum", lhs, rhs, broadcast_dimensions)


@op("Min", opcode="minimum", section=BINARY_SECTION)
def min(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The lesser of the two; NaN where one is NaN.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.min(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("min", "minimum", lhs, rhs, broadcast_dimensions)


@op("And", opcode="and", section=BINARY_SECTION)
def and_(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The logical and of preds, the bitwise and of integers.

    Args:
        lhs, rhs: arrays of one element type: pred or integers. One of them may be a Python
            number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.pred[2, 3]), b.parameter(xb.pred[3])
        >>> xb.and_(x, v, broadcast_dimensions=[1]).shape
        pred[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("and_", "and", lhs, rhs, broadcast_dimensions)


@op("Or", opcode="or", section=BINARY_SECTION)
def or_(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The logical or of preds, the bitwise or of integers.

    Args:
        lhs, rhs: arrays of one element type: pred or integers. One of them may be a Python
            number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.pred[2, 3]), b.parameter(xb.pred[3])
        >>> xb.or_(x, v, broadcast_dimensions=[1]).shape
        pred[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """
    return record_binary("or_", "or", lhs, rhs, broadcast_dimensions)


@op("Xor", opcode="xor", section=BUILDER_H)
def xor(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The logical exclusive or of preds, the bitwise one of integers.

    Args:
        lhs, rhs: arrays of one element type: pred or integers. One of them may be a Python
            number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u8[2, 3]), b.parameter(xb.u8[3])
        >>> xb.xor(x, v, broadcast_dimensions=[1]).shape
        u8[2,3]

    Not in the document; XlaBuilder's Xor.
    """
    return record_binary("xor", "xor", lhs, rhs, broadcast_dimensions)


@op("Pow", opcode="power", section=BUILDER_H)
def pow(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """lhs to the power of rhs.

    Args:
        lhs, rhs: arrays of one element type: integers, floating point or complex. One of them
            may be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.pow(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Not in the document; XlaBuilder's Pow.
    """
    return record_binary("pow", "power", lhs, rhs, broadcast_dimensions)


@op("Atan2", opcode="atan2", section=BUILDER_H)
def atan2(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The angle, in radians, of the point (x=rhs, y=lhs).

    Args:
        lhs, rhs: arrays of one element type: floating point or complex. One of them may be a
            Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.atan2(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Not in the document; XlaBuilder's Atan2.
    """
    return record_binary("atan2", "atan2", lhs, rhs, broadcast_dimensions)


@op("ShiftLeft", opcode="shift_left", section=BUILDER_H)
def shift_left(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The bits of lhs moved up by rhs places; 0 when rhs is the width or more.

    Args:
        lhs, rhs: arrays of one element type: integers. One of them may be a Python number that
            the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u8[2, 3]), b.parameter(xb.u8[3])
        >>> xb.shift_left(x, v, broadcast_dimensions=[1]).shape
        u8[2,3]

    Not in the document; XlaBuilder's ShiftLeft.
    """
    return record_binary("shift_left", "shift_left", lhs, rhs, broadcast_dimensions)


@op("ShiftRightArithmetic", opcode="shift_right_arithmetic", section=BUILDER_H)
def shift_right_arithmetic(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The bits of lhs moved down by rhs places, filled with the sign bit.

    Args:
        lhs, rhs: arrays of one element type: integers. One of them may be a Python number that
            the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.s8[2, 3]), b.parameter(xb.s8[3])
        >>> xb.shift_right_arithmetic(x, v, broadcast_dimensions=[1]).shape
        s8[2,3]

    Not in the document; XlaBuilder's ShiftRightArithmetic.
    """
    return record_binary(
        "shift_right_arithmetic", "shift_right_arithmetic", lhs, rhs, broadcast_dimensions
    )


@op("ShiftRightLogical", opcode="shift_right_logical", section=BUILDER_H)
def shift_right_logical(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The bits of lhs moved down by rhs places, filled with 0.

    Args:
        lhs, rhs: arrays of one element type: integers. One of them may be a Python number that
            the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u8[2, 3]), b.parameter(xb.u8[3])
        >>> xb.shift_right_logical(x, v, broadcast_dimensions=[1]).shape
        u8[2,3]

    Not in the document; XlaBuilder's ShiftRightLogical.
    """
    return record_binary(
        "shift_right_logical", "shift_right_logical", lhs, rhs, broadcast_dimensions
    )


@op("Complex", opcode="complex", section=BUILDER_H)
def complex(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """The complex number with real part lhs and imaginary part rhs.

    Args:
        lhs, rhs: arrays of one element type: f32 or f64. One of them may be a Python number
            that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        An array of the broadcast shape, of c64 or c128.

    Raises:
        ShapeInferenceError: element types differ or are not allowed; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.complex(x, v, broadcast_dimensions=[1]).shape
        c64[2,3]

    Not in the document; XlaBuilder's Complex.
    """
    return record_binary("complex", "complex", lhs, rhs, broadcast_dimensions)


def right_shift_operator(lhs: Any, rhs: Any) -> XlaOp:
    """What ``lhs >> rhs`` records: the shift that keeps the sign where there is one."""
    beside = lhs if type(lhs) is XlaOp else rhs
    signed = element_type_of("shift_right", beside).is_signed
    return (shift_right_arithmetic if signed else shift_right_logical)(lhs, rhs)
