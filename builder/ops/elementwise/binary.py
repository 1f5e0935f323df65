"""Elementwise arithmetic and logic of two arrays.

Operation Semantics: Element-wise binary arithmetic operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import numpy as np

from builder.checking import Check
from builder.errors import ShapeInferenceError, error_of
from builder.graph.registry import OPERATIONS
from builder.graph.xla_op import NO_ATTRIBUTES, XlaOp
from builder.ops.broadcasting import broadcast_sizes
from builder.ops.elementwise.common import (
    APPROXIMATED,
    EXACT,
    ORDERING,
    ROUNDED,
    SMOOTH,
    STEEP,
    Computed,
    Rule,
    define_elementwise,
    element_type_of,
    function_of_two_arrays,
    op_of_two_arrays,
    result_type,
)
from builder.ops.operands import Dimensions, Operand
from builder.schema import BUILDER_H, Monoid, ResultType, Schema, Trait
from builder.schema.definition import (
    ANY,
    FLOATING_OR_COMPLEX,
    INTEGER,
    NUMBER,
    ORDERED,
    PART_OF_COMPLEX,
    PRED_OR_INTEGER,
    REAL_NUMBER,
    ElementTypes,
)
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, intern_array, of_same_sizes

F = TypeVar("F", bound=Callable[..., Any])

_SECTION: Final = "Element-wise binary arithmetic operations"


def _binary_shape(name: str, schema: Schema) -> Rule:
    """Return the shape inference of the function `name`, whose operands are broadcast."""

    def shape(
        lhs: Shape, rhs: Shape, broadcast_dimensions: tuple[int, ...] | None = None
    ) -> ArrayShape:
        check = Check(name, lhs=lhs, rhs=rhs)
        left, right = check.array("lhs"), check.array("rhs")
        # Operation Semantics: Element-wise binary arithmetic operations
        element_type = check.same_element_type()
        allowed = schema.element_types["lhs"]
        # Operation Semantics: Element-wise binary arithmetic operations; the section of the schema
        if element_type not in allowed.types:
            check.fail(f"operands must be of {allowed.text} type", got=element_type)
        result = result_type(schema, element_type)
        if left is right and not broadcast_dimensions:
            return of_same_sizes(left, result)
        return intern_array(result, *broadcast_sizes(check, left, right, broadcast_dimensions))

    return shape


def _no_attributes(_: PrimitiveType) -> Mapping[str, Any]:
    return NO_ATTRIBUTES


def _binary(
    opcode: str,
    element_types: ElementTypes,
    computed: Computed,
    section: str,
    *,
    instead: str = "",
    **data: Any,
) -> Callable[[F], F]:
    """Return a decorator that makes the body of a function of two arrays.

    The arguments are those of `define_elementwise`; `instead` is that of `op_of_two_arrays`.
    """
    schema = define_elementwise(opcode, "lhs rhs", element_types, computed, section, **data)

    def enter(declared: F) -> F:
        rule = _binary_shape(declared.__name__, schema)
        return op_of_two_arrays(schema, rule, _no_attributes, instead=instead)(declared)

    return enter


Scalar = np.ndarray[Any, Any]
"""An array without dimensions."""


def _zero(element_type: PrimitiveType) -> Scalar:
    return np.zeros((), element_type.dtype)


def _one(element_type: PrimitiveType) -> Scalar:
    return np.ones((), element_type.dtype)


def _all_bits(element_type: PrimitiveType) -> Scalar:
    return (
        np.array(-1).astype(element_type.dtype) if element_type.is_integral else _one(element_type)
    )


def _least(element_type: PrimitiveType) -> Scalar:
    return _extreme(element_type, -np.inf, element_type.min)


def _largest(element_type: PrimitiveType) -> Scalar:
    return _extreme(element_type, np.inf, element_type.max)


def _extreme(element_type: PrimitiveType, infinity: float, finite: Any) -> Scalar:
    if not element_type.is_floating:
        return np.array(finite, element_type.dtype)
    extreme = np.array(infinity).astype(element_type.dtype)
    # Some types have no infinities.
    if not np.isinf(extreme.astype(np.float64)):
        return np.array(finite).astype(element_type.dtype)
    return extreme


@_binary("add", ANY, ROUNDED, _SECTION, monoid=Monoid(_zero, "+"))
def add(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The sum lhs + rhs; the logical or of preds.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.add(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """


@_binary("subtract", NUMBER, ROUNDED, _SECTION, cpp_name="Sub")
def sub(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The difference lhs - rhs.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.sub(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """


@_binary("multiply", ANY, ROUNDED, _SECTION, cpp_name="Mul", monoid=Monoid(_one, "·"))
def mul(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The product lhs * rhs; the logical and of preds.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.mul(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """


@_binary("mulhi", INTEGER, EXACT, BUILDER_H, stablehlo="chlo.mulhi", synonyms=("mhlo.mulhi",))
def mulhi(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The upper half of the bits of the product lhs * rhs; `mul` returns the lower half.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u32[2, 3]), b.parameter(xb.u32[3])
        >>> xb.mulhi(x, v, broadcast_dimensions=[1]).shape
        u32[2,3]

    Not in Operation Semantics; XlaBuilder's Mulhi.
    """


@_binary("divide", NUMBER, APPROXIMATED, _SECTION, cpp_name="Div", traits=Trait.DIVISION)
def div(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The quotient lhs / rhs; rounded toward zero for integers.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.div(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """


@_binary("remainder", REAL_NUMBER, APPROXIMATED, _SECTION, cpp_name="Rem", traits=Trait.DIVISION)
def rem(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The remainder of lhs / rhs, with the sign of lhs; smaller than rhs in magnitude.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.s32[2, 3]), b.parameter(xb.s32[3])
        >>> xb.rem(x, v, broadcast_dimensions=[1]).shape
        s32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """


@_binary(
    "maximum",
    ORDERED,
    ORDERING,
    _SECTION,
    cpp_name="Max",
    monoid=Monoid(_least, "max", is_infix=False),
    instead="to reduce along dimensions, use lib.max(x, axis) of builder.lib",
)
def max(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The larger operand; NaN if either is NaN.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.max(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """


@_binary(
    "minimum",
    ORDERED,
    ORDERING,
    _SECTION,
    cpp_name="Min",
    monoid=Monoid(_largest, "min", is_infix=False),
    instead="to reduce along dimensions, use lib.min(x, axis) of builder.lib",
)
def min(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The smaller operand; NaN if either is NaN.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.min(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """


@_binary("and", PRED_OR_INTEGER, EXACT, _SECTION, monoid=Monoid(_all_bits, "and"))
def and_(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The logical and of preds, the bitwise and of integers.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.pred[2, 3]), b.parameter(xb.pred[3])
        >>> xb.and_(x, v, broadcast_dimensions=[1]).shape
        pred[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """


@_binary("or", PRED_OR_INTEGER, EXACT, _SECTION, monoid=Monoid(_zero, "or"))
def or_(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The logical or of preds, the bitwise or of integers.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.pred[2, 3]), b.parameter(xb.pred[3])
        >>> xb.or_(x, v, broadcast_dimensions=[1]).shape
        pred[2,3]

    Operation Semantics: Element-wise binary arithmetic operations.
    """


@_binary("xor", PRED_OR_INTEGER, EXACT, BUILDER_H, monoid=Monoid(_zero, "xor"))
def xor(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The logical exclusive or of preds, the bitwise exclusive or of integers.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u8[2, 3]), b.parameter(xb.u8[3])
        >>> xb.xor(x, v, broadcast_dimensions=[1]).shape
        u8[2,3]

    Not in Operation Semantics; XlaBuilder's Xor.
    """


@_binary("power", NUMBER, STEEP, BUILDER_H, cpp_name="Pow")
def pow(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """lhs to the power of rhs.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.pow(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Not in Operation Semantics; XlaBuilder's Pow.
    """


@_binary("atan2", FLOATING_OR_COMPLEX, SMOOTH, BUILDER_H)
def atan2(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The angle of the point (x=rhs, y=lhs) in radians, from -pi to pi.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.atan2(x, v, broadcast_dimensions=[1]).shape
        f32[2,3]

    Not in Operation Semantics; XlaBuilder's Atan2.
    """


@_binary("shift_left", INTEGER, EXACT, BUILDER_H)
def shift_left(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The bits of lhs shifted left by rhs; 0 if rhs is the width of the type or more.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.u8[2, 3]), b.parameter(xb.u8[3])
        >>> xb.shift_left(x, v, broadcast_dimensions=[1]).shape
        u8[2,3]

    Not in Operation Semantics; XlaBuilder's ShiftLeft.
    """


@_binary("shift_right_arithmetic", INTEGER, EXACT, BUILDER_H)
def shift_right_arithmetic(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None
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


@_binary("shift_right_logical", INTEGER, EXACT, BUILDER_H)
def shift_right_logical(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None
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


@_binary("complex", PART_OF_COMPLEX, EXACT, BUILDER_H, result=ResultType.COMPLEX)
def complex(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """The complex number with real part lhs and imaginary part rhs.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        >>> xb.complex(x, v, broadcast_dimensions=[1]).shape
        c64[2,3]

    Not in Operation Semantics; XlaBuilder's Complex.
    """


def _operator(
    function: Callable[..., XlaOp], refuse: Callable[[Any, Any], None]
) -> Callable[[F], F]:
    """Return a decorator for an operator that records the op of a function, or refuses."""
    name = function.__name__
    schema = OPERATIONS[name].schema
    rule = _binary_shape(name, schema)

    def enter(declared: F) -> F:
        return function_of_two_arrays(
            declared, name, schema.opcode, rule, _no_attributes, refuse=refuse
        )

    return enter


def _refuse_integers(lhs: Any, rhs: Any) -> None:
    operand = lhs if type(lhs) is XlaOp else rhs
    if operand.shape.element_type.is_integral:
        raise error_of(
            ShapeInferenceError,
            "div",
            "the operator / is for floating-point and complex numbers, because the quotient of "
            "integers is rounded toward zero",
            "write xb.div(lhs, rhs) for the rounded quotient, or convert the operands first with "
            "xb.convert_element_type",
            got=f"\n  operand {operand.shape}",
            shapes={"operand": operand.shape},
        )


@_operator(div, _refuse_integers)
def division_operator(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Record ``lhs / rhs``; refuse integers, because Python's ``/`` does not truncate them."""


def _refuse_signed(lhs: Any, rhs: Any) -> None:
    operand = lhs if type(lhs) is XlaOp else rhs
    if operand.shape.element_type.is_signed:
        raise error_of(
            ShapeInferenceError,
            "rem",
            "the operator % is for unsigned integers, because Python's remainder has the sign of "
            "rhs, and XLA's has the sign of lhs",
            "write xb.rem(lhs, rhs) for the sign of lhs, or "
            "xb.rem(xb.rem(lhs, rhs) + rhs, rhs) for the sign of rhs",
            got=f"\n  operand {operand.shape}",
            shapes={"operand": operand.shape},
        )


@_operator(rem, _refuse_signed)
def remainder_operator(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None
) -> XlaOp:
    """Record ``lhs % rhs`` of unsigned integers; refuse other types, for which Python rounds down.

    The result of XLA's remainder has the sign of `lhs`, and that of Python the sign of `rhs`.
    """


def right_shift_operator(lhs: Any, rhs: Any) -> XlaOp:
    """Record ``lhs >> rhs``: arithmetic for signed integers, logical for unsigned integers."""
    operand = lhs if type(lhs) is XlaOp else rhs
    signed = element_type_of("shift_right", operand).is_signed
    return (shift_right_arithmetic if signed else shift_right_logical)(lhs, rhs)
