"""Constants of an element type, or of the shape of an array.

XLA: constants.h of the client library.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from builder.errors import OperandError, ShapeInferenceError, error_of
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import array_argument, float_info
from builder.lib.registry import library_function
from builder.ops.broadcasting import broadcast_scalar
from builder.ops.operands import is_number
from builder.ops.reshaping import broadcast
from builder.types.primitive_type import (
    PrimitiveType,
    PrimitiveTypeLike,
    element_type_argument,
    pred,
)
from builder.types.shape import ArrayShape, ShapeLike, has_unbounded_sizes, shape_argument


@library_function("ConstantR0WithType")
def constant_r0_with_type(
    builder: XlaBuilder, element_type: PrimitiveTypeLike, value: Any
) -> XlaOp:
    """Return a scalar constant of an element type.

    Args:
        builder: records the constant.
        element_type: the element type.
        value: a Python number that the type can represent.

    Raises:
        ConstantError: the type can't represent the value.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.constant_r0_with_type(xb.XlaBuilder(), xb.s8, 3).shape
        s8[]
    """
    kind = element_type_argument("constant_r0_with_type", "element_type", element_type)
    return _scalar(builder, kind, value)


@library_function("ScalarLike")
def scalar_like(prototype: XlaOp, value: Any) -> XlaOp:
    """Return a scalar constant of the element type of an array.

    Args:
        prototype: an array of any shape.
        value: a Python number that the element type can represent.

    Raises:
        ConstantError: the element type can't represent the value.
        OperandError: `prototype` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.scalar_like(xb.XlaBuilder().parameter(xb.bf16[2, 3]), 0.5).shape
        bf16[]
    """
    element_type = array_argument("scalar_like", "prototype", prototype).element_type
    return _scalar(prototype.builder, element_type, value)


@library_function("FullLike")
def full_like(prototype: XlaOp, value: Any) -> XlaOp:
    """Return an array of the shape of another one, with all elements equal to a number.

    Args:
        prototype: an array. A dimension of bounded size becomes one of the bound, as in XLA.
        value: a Python number that the element type can represent.

    Raises:
        ConstantError: the element type can't represent the value.
        OperandError: `prototype` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.full_like(xb.XlaBuilder().parameter(xb.f32[2, 3]), 0.5).shape
        f32[2,3]
    """
    shape = array_argument("full_like", "prototype", prototype)
    scalar = _scalar(prototype.builder, shape.element_type, value)
    if has_unbounded_sizes(shape):
        return broadcast_scalar(scalar, shape, [prototype])
    return broadcast(scalar, shape.dimensions)


@library_function("Zero")
def zero(builder: XlaBuilder, element_type: PrimitiveTypeLike) -> XlaOp:
    """Return the scalar 0 of an element type; false for pred.

    Raises:
        PrimitiveTypeError: `element_type` is not an element type.
        ConstantError: the type can't represent 0 (f8e8m0fnu).

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.zero(xb.XlaBuilder(), xb.c64).shape
        c64[]
    """
    return _scalar(builder, element_type_argument("zero", "element_type", element_type), 0)


@library_function("Zeros")
def zeros(builder: XlaBuilder, shape: ShapeLike) -> XlaOp:
    """Return an array of zeros.

    Args:
        builder: records the array.
        shape: the shape of an array of fixed sizes.

    Raises:
        OperandError: `shape` is not an array shape.
        ShapeInferenceError: a size is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.zeros(xb.XlaBuilder(), xb.f32[2, 3]).shape
        f32[2,3]
    """
    array = shape_argument("zeros", "shape", shape)
    if not isinstance(array, ArrayShape):
        raise error_of(OperandError, "zeros", "shape must be an array shape", got=array)
    if has_unbounded_sizes(array):
        fix = "write lib.zeros_like(x), where x is an array of these sizes"
        raise error_of(ShapeInferenceError, "zeros", "shape must have fixed sizes", fix, got=array)
    return broadcast(_scalar(builder, array.element_type, 0), array.dimensions)


@library_function("ZerosLike")
def zeros_like(prototype: XlaOp) -> XlaOp:
    """Return zeros in the shape of an array; see `full_like`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.zeros_like(xb.XlaBuilder().parameter(xb.s32[4])).shape
        s32[4]
    """
    return full_like(prototype, 0)


@library_function("One")
def one(builder: XlaBuilder, element_type: PrimitiveTypeLike) -> XlaOp:
    """Return the scalar 1 of an element type; true for pred.

    Raises:
        PrimitiveTypeError: `element_type` is not an element type.
        ConstantError: the type can't represent 1.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.one(xb.XlaBuilder(), xb.u4).shape
        u4[]
    """
    return _scalar(builder, element_type_argument("one", "element_type", element_type), 1)


@library_function("Epsilon")
def epsilon(builder: XlaBuilder, element_type: PrimitiveTypeLike) -> XlaOp:
    """Return the difference between 1 and the next larger number of a floating-point type.

    Raises:
        ShapeInferenceError: the type is not a floating-point type.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.epsilon(xb.XlaBuilder(), xb.f32).attributes["value"]
        array(1.1920929e-07, dtype=float32)
    """
    return builder.constant(float(_finfo("epsilon", element_type).eps), element_type)


@library_function("MinPositiveNormalValue")
def min_positive_normal_value(builder: XlaBuilder, element_type: PrimitiveTypeLike) -> XlaOp:
    """Return the smallest positive normal number of a floating-point type.

    Raises:
        ShapeInferenceError: the type is not a floating-point type.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.min_positive_normal_value(xb.XlaBuilder(), xb.f32).attributes["value"]
        array(1.1754944e-38, dtype=float32)
    """
    smallest = _finfo("min_positive_normal_value", element_type).smallest_normal
    return builder.constant(float(smallest), element_type)


@library_function("MinValue")
def min_value(builder: XlaBuilder, element_type: PrimitiveTypeLike) -> XlaOp:
    """Return the smallest value of a real type: -inf if the type has infinities.

    Raises:
        ShapeInferenceError: the type is complex.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> [int(lib.min_value(b, t).attributes["value"]) for t in (xb.s8, xb.u8)]
        [-128, 0]
    """
    return _extreme("min_value", builder, element_type, -np.inf)


@library_function("MinFiniteValue")
def min_finite_value(builder: XlaBuilder, element_type: PrimitiveTypeLike) -> XlaOp:
    """Return the smallest finite value of a real type.

    Raises:
        ShapeInferenceError: the type is complex.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> float(lib.min_finite_value(xb.XlaBuilder(), xb.f16).attributes["value"])
        -65504.0
    """
    real = _real("min_finite_value", element_type)
    return builder.constant(real.min, real)


@library_function("MaxValue")
def max_value(builder: XlaBuilder, element_type: PrimitiveTypeLike) -> XlaOp:
    """Return the largest value of a real type: inf if the type has infinities.

    Raises:
        ShapeInferenceError: the type is complex.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> float(lib.max_value(xb.XlaBuilder(), xb.f16).attributes["value"])
        inf
    """
    return _extreme("max_value", builder, element_type, np.inf)


@library_function("MaxFiniteValue")
def max_finite_value(builder: XlaBuilder, element_type: PrimitiveTypeLike) -> XlaOp:
    """Return the largest finite value of a real type.

    Raises:
        ShapeInferenceError: the type is complex.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> float(lib.max_finite_value(xb.XlaBuilder(), xb.f8e4m3fn).attributes["value"])
        448.0
    """
    real = _real("max_finite_value", element_type)
    return builder.constant(real.max, real)


@library_function("NanValue")
def nan_value(builder: XlaBuilder, element_type: PrimitiveTypeLike) -> XlaOp:
    """Return a quiet NaN of a floating-point type.

    Raises:
        ConstantError: the type has no NaN (f4e2m1fn, f6e2m3fn, f6e3m2fn).
        ShapeInferenceError: the type is not a floating-point type.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> float(lib.nan_value(xb.XlaBuilder(), xb.bf16).attributes["value"])
        nan
    """
    return builder.constant(np.nan, _floating("nan_value", element_type))


def _scalar(builder: XlaBuilder, type: PrimitiveType, value: Any) -> XlaOp:
    """Return a scalar constant. Unlike constants of a builder, 0 and 1 can be preds."""
    if type is pred and is_number(value) and value in (0, 1):
        value = bool(value)
    return builder.constant(value, type)


def _real(op: str, type: PrimitiveTypeLike) -> PrimitiveType:
    kind = element_type_argument(op, "type", type)
    if kind.is_complex:
        fix = f"write xb.{kind.real_type}, the type of the parts"
        raise error_of(ShapeInferenceError, op, "type must be real", fix, got=kind)
    return kind


def _floating(op: str, type: PrimitiveTypeLike) -> PrimitiveType:
    kind = element_type_argument(op, "type", type)
    if not kind.is_floating:
        rule = "type must be a floating-point type"
        raise error_of(ShapeInferenceError, op, rule, "write for instance xb.f32", got=kind)
    return kind


def _finfo(op: str, type: PrimitiveTypeLike) -> Any:
    return float_info(_floating(op, type))


def _extreme(op: str, builder: XlaBuilder, type: PrimitiveTypeLike, infinity: float) -> XlaOp:
    """Return an infinity, or the finite extreme of its sign for types without infinities."""
    real = _real(op, type)
    if real.is_floating and np.isinf(np.asarray(infinity).astype(real.dtype)):
        return builder.constant(infinity, real)
    return builder.constant(real.max if infinity > 0 else real.min, real)
