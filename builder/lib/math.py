"""Elementary functions: classes of floating-point numbers, neighbours, rounding.

XLA: math.h of the client library; the special functions of math.h are in `builder.lib.special`.
The functions of math.h that are ops of `builder` (`square`, `reciprocal`, `erf`, `sinh`, ...) are
not repeated here.
"""

from __future__ import annotations

import numpy as np

from builder.checking import flag
from builder.errors import OperandError, ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.registry import library_function
from builder.ops.elementwise import (
    abs,
    and_,
    bitcast_convert_type,
    conj,
    convert_element_type,
    eq,
    eq_total_order,
    gt,
    lt,
    ne,
    or_,
    round_nearest_even,
    select,
)
from builder.ops.operands import need_op
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import UNBOUNDED, ArrayShape

_SIGNED = {4: pt.s4, 8: pt.s8, 16: pt.s16, 32: pt.s32, 64: pt.s64}


@library_function("IsPosInf")
def is_pos_inf(x: XlaOp) -> XlaOp:
    """Return whether each element is +infinity. Types without infinities give false.

    Args:
        x: a floating-point array of any sizes.

    Raises:
        OperandError: `x` is not a floating-point array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.is_pos_inf(xb.XlaBuilder().parameter(xb.bf16[3])).shape
        pred[3]
    """
    return gt(x, float(floating_type("is_pos_inf", x=x).max))


@library_function("IsNegInf")
def is_neg_inf(x: XlaOp) -> XlaOp:
    """Return whether each element is -infinity. Types without infinities give false.

    Args:
        x: a floating-point array of any sizes.

    Raises:
        OperandError: `x` is not a floating-point array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.is_neg_inf(xb.XlaBuilder().parameter(xb.f32[3])).shape
        pred[3]
    """
    return lt(x, float(floating_type("is_neg_inf", x=x).min))


@library_function("IsInf")
def is_inf(x: XlaOp) -> XlaOp:
    """Return whether each element is +infinity or -infinity.

    Args:
        x: a floating-point array of any sizes.

    Raises:
        OperandError: `x` is not a floating-point array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.is_inf(xb.XlaBuilder().parameter(xb.f64[2, 3])).shape
        pred[2,3]
    """
    return gt(abs(x), float(floating_type("is_inf", x=x).max))


@library_function("IsNan")
def is_nan(x: XlaOp) -> XlaOp:
    """Return whether each element is a NaN.

    Args:
        x: a floating-point array of any sizes.

    Raises:
        OperandError: `x` is not a floating-point array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.is_nan(xb.XlaBuilder().parameter(xb.f16[3])).shape
        pred[3]
    """
    floating_type("is_nan", x=x)
    return ne(x, x)


@library_function("IsNegZero")
def is_neg_zero(x: XlaOp) -> XlaOp:
    """Return whether each element is -0. Types without a negative zero give false.

    Args:
        x: a floating-point array of any sizes.

    Raises:
        OperandError: `x` is not a floating-point array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.is_neg_zero(xb.XlaBuilder().parameter(xb.f32[3])).shape
        pred[3]
    """
    if floating_type("is_neg_zero", x=x).bits < 32:
        x = convert_element_type(x, pt.f32)
    return eq_total_order(x, -0.0)


@library_function("NextAfter", has_derivative=True)
def next_after(from_: XlaOp, to: XlaOp) -> XlaOp:
    """Return the neighbour of each element of `from_` in the direction of `to`.

    Where both are equal, including zeros of different signs, the result is `to`; where one is a
    NaN, the result is NaN. Subnormal numbers are neighbours on all platforms. The function has no
    derivative.

    Args:
        from_: a floating-point array.
        to: an array of the same type and sizes. One of the two may be a scalar.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, a size of `from_` is unbounded, or the type has no
            sign (f8e8m0fnu).

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[3])
        >>> lib.next_after(x, lib.scalar_like(x, 0)).shape
        f32[3]
    """
    return next_number(from_, to)


def next_number(from_: XlaOp, to: XlaOp) -> XlaOp:
    """Return `next_after` of the operands, with a derivative of 0."""
    kind = floating_type("next_after", from_=from_, to=to)
    if kind is pt.f8e8m0fnu:
        raise error_of(ShapeInferenceError, "next_after", "the type must have a sign", got=kind)
    refuse_unbounded("next_after", from_=from_)
    # All comparisons are of integers, because devices may take subnormal numbers for zeros.
    integer = _SIGNED[kind.bits]
    lowest = int(integer.min)
    start, end = bitcast_convert_type(from_, integer), bitcast_convert_type(to, integer)
    # An order-preserving number of each value: 0 for both zeros, -1 for the number below them.
    first, last = (select(lt(x, 0), lowest - x, x) for x in (start, end))
    moved = select(lt(first, last), first + 1, first - 1)
    is_negative = lt(moved, 0)
    if np.signbit(np.array(-0.0).astype(kind.dtype)):
        is_negative = or_(is_negative, and_(eq(moved, 0), lt(start, 0)))
    result = select(is_negative, lowest - moved, moved)
    result = select(eq(first, last), end, result)
    nan = np.array(np.nan).astype(kind.dtype)
    if np.isnan(nan):
        # As an integer too, because a select of f16 or bf16 converts its operands on CPUs.
        bits = int(nan.view(integer.dtype))
        result = select(or_(ne(from_, from_), ne(to, to)), bits, result)
    return bitcast_convert_type(result, kind)


@library_function("RoundToEven")
def round_to_even(x: XlaOp) -> XlaOp:
    """Round each element to the nearest integer; if two are equally near, to the even one.

    Args:
        x: a floating-point array of any sizes.

    Raises:
        OperandError: `x` is not a floating-point array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.round_to_even(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]
    """
    floating_type("round_to_even", x=x)
    return round_nearest_even(x)


@library_function("MaybeConjugate")
def maybe_conjugate(x: XlaOp, conjugate: bool) -> XlaOp:
    """Return the complex conjugate of a complex array if `conjugate` is true; otherwise `x`.

    Args:
        x: an array of any type.
        conjugate: has no effect on real arrays.

    Raises:
        OperandError: `x` is not an array.
        ShapeInferenceError: `conjugate` is not a bool.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[3])
        >>> lib.maybe_conjugate(x, True) is x
        True
    """
    kind = array_shape("maybe_conjugate", "x", x).element_type
    flag("maybe_conjugate", "conjugate", conjugate)
    return conj(x) if conjugate and kind.is_complex else x


def floating_type(op: str, **operands: XlaOp) -> PrimitiveType:
    """Return the floating-point type of all operands of a function.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
    """
    shapes = {name: array_shape(op, name, operand) for name, operand in operands.items()}
    for name, shape in shapes.items():
        if not shape.element_type.is_floating:
            rule = f"{name} must be a floating-point array"
            raise error_of(
                OperandError, op, rule, "convert it with xb.convert_element_type", got=shape
            )
    kinds = {shape.element_type for shape in shapes.values()}
    if len(kinds) > 1:
        got = " and ".join(map(str, shapes.values()))
        rule = f"{', '.join(shapes)} must have one element type"
        raise error_of(OperandError, op, rule, "convert one with xb.convert_element_type", got=got)
    return kinds.pop()


def refuse_unbounded(op: str, **operands: XlaOp) -> None:
    """Refuse unbounded sizes, as XLA's function does.

    Raises:
        ShapeInferenceError: a size of an operand is unbounded.
    """
    for name, operand in operands.items():
        shape = operand.shape
        if isinstance(shape, ArrayShape) and UNBOUNDED in shape.dimensions:
            rule = f"the sizes of {name} must be constant or bounded"
            raise error_of(
                ShapeInferenceError, op, rule, "give the size a bound, such as <=8", got=shape
            )


def array_shape(op: str, name: str, operand: XlaOp) -> ArrayShape:
    """Return the shape of an operand.

    Raises:
        OperandError: it is not an array.
    """
    need_op(op, name, operand)
    if not isinstance(operand.shape, ArrayShape):
        raise error_of(OperandError, op, f"{name} must be an array", got=operand.shape)
    return operand.shape
