"""The arguments that the functions of the library share: arrays, axes and element types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import numpy as np

from builder.checking import CONVERT, first_duplicate, flag, integer, integers
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.xla_op import XlaOp
from builder.ops.elementwise import convert_element_type
from builder.ops.operands import need_op
from builder.types.primitive_type import PrimitiveType, f32, pred
from builder.types.shape import UNBOUNDED, ArrayShape, ShapeLike, shape_argument

Axes = int | Sequence[int] | None
"""A dimension or several of them, each counted from 0, or from the end if negative; None for all
dimensions."""


MOST_RESULTS: Final = 2**16
"""The largest number of results of a function. Each is an op, so that millions fill the memory."""

_AS_NUMBER: Final = "pass a Python number; the value is part of the recorded program"


def array_argument(op: str, name: str, value: Any) -> ArrayShape:
    """Return the shape of argument `name`, which must be an op whose result is an array."""
    shape = need_op(op, name, value).shape
    if not isinstance(shape, ArrayShape):
        fix = "take an element with xb.get_tuple_element" if shape.is_tuple else ""
        raise error_of(OperandError, op, f"{name} must be an array", fix, got=shape)
    return shape


def shape_of(array: XlaOp) -> ArrayShape:
    """Return the shape of an op whose result is known to be an array."""
    return cast("ArrayShape", array.shape)


def floating_argument(op: str, name: str, value: Any) -> ArrayShape:
    """Return the shape of argument `name`, which must be an array of a floating-point type."""
    shape = array_argument(op, name, value)
    if not shape.element_type.is_floating:
        rule = f"{name} must be of floating-point type"
        raise error_of(ShapeInferenceError, op, rule, CONVERT, got=shape, shapes={name: shape})
    return shape


def number_argument(op: str, name: str, value: Any) -> ArrayShape:
    """Return the shape of argument `name`, which must be an array of numbers, not of preds."""
    shape = array_argument(op, name, value)
    if shape.element_type is pred:
        fix = "use lib.any or lib.all, or convert to an integer type to count"
        raise error_of(ShapeInferenceError, op, f"{name} must be of numbers", fix, got=shape)
    return shape


def ordered_argument(op: str, name: str, value: Any) -> ArrayShape:
    """Return the shape of argument `name`, which must be an array of real numbers or preds."""
    shape = array_argument(op, name, value)
    if shape.element_type.is_complex:
        fix = "complex numbers have no order; compare xb.abs or xb.real of them"
        raise error_of(ShapeInferenceError, op, f"{name} must be real", fix, got=shape)
    return shape


def typed_argument(op: str, name: str, value: Any, element_type: PrimitiveType) -> ArrayShape:
    """Return the shape of argument `name`, which must be an array of an element type."""
    shape = array_argument(op, name, value)
    if shape.element_type is not element_type:
        rule = f"{name} must be of type {element_type}"
        raise error_of(ShapeInferenceError, op, rule, CONVERT, got=shape, shapes={name: shape})
    return shape


def real_number(op: str, name: str, value: Any) -> float:
    """Return argument `name`, a number of Python or NumPy that is not complex, as a float."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    rule = f"{name} must be a number"
    raise error_of(
        OperandError, op, rule, _AS_NUMBER if isinstance(value, XlaOp) else "", got=brief(value, 80)
    )


def finite_number(op: str, name: str, value: Any, least: float = -math.inf) -> float:
    """Return argument `name`, a finite number of at least `least`, as a float."""
    try:
        number = real_number(op, name, value)
    except OperandError:
        number = math.nan
    if math.isfinite(number) and number >= least:
        return number
    bound = "" if least == -math.inf else f" of at least {least:g}"
    rule = f"{name} must be a finite number{bound}"
    raise error_of(
        OperandError, op, rule, _AS_NUMBER if isinstance(value, XlaOp) else "", got=brief(value, 80)
    )


def natural(op: str, name: str, value: Any) -> int:
    """Return argument `name`, an integer that must not be negative."""
    number = integer(op, name, value)
    if number < 0:
        raise error_of(ShapeInferenceError, op, f"{name} must not be negative", got=number)
    return number


def axis_argument(op: str, name: str, axis: Any, rank: int) -> int:
    """Return the number of a dimension from 0 to `rank` - 1; `axis` may count from the end."""
    number = integer(op, name, axis)
    if not -rank <= number < rank:
        numbers = f"from {-rank} to {rank - 1}" if rank else "the array has no dimensions"
        raise ShapeInferenceError(
            f"{name} must be a dimension ({numbers})",
            op=op,
            argument=name,
            got=str(number),
            fix=f"{name}=-1 is the last dimension, {rank - 1}" if rank else "",
            dimension=number,
        )
    return number % rank


def one_or_several(op: str, name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """Return the integers of argument `name`, which is an integer or a sequence of them."""
    if isinstance(value, Iterable):
        return integers(op, name, value)
    return (integer(op, name, value),)


def axes_argument(op: str, axis: Axes, rank: int) -> tuple[int, ...]:
    """Return the numbers of the dimensions that the argument `axis` names."""
    if axis is None:
        return tuple(range(rank))
    given = one_or_several(op, "axis", axis)
    axes = tuple([axis_argument(op, "axis", each, rank) for each in given])
    twice = first_duplicate(axes)
    if twice is not None:
        rule = "axis must not name a dimension twice"
        raise error_of(
            ShapeInferenceError,
            op,
            rule,
            got=f"dimension {twice} twice in {list(given)}",
            dimension=twice,
        )
    return axes


def reduced_axes(op: str, axis: Axes, keepdims: bool, rank: int) -> tuple[int, ...]:
    """Return the dimensions to reduce; also check that `keepdims` is a bool."""
    flag(op, "keepdims", keepdims)
    return axes_argument(op, axis, rank)


def bounded_argument(op: str, name: str, shape: ArrayShape) -> None:
    """Check that argument `name` has no unbounded size."""
    if not shape.is_bounded:
        number = shape.dimensions.index(UNBOUNDED)
        rule = f"{name} must not have an unbounded size"
        fix = f"give dimension {number} a size, or a bound such as <=8"
        raise error_of(ShapeInferenceError, op, rule, fix, got=shape, dimension=number)


def static_argument(op: str, name: str, shape: ArrayShape) -> None:
    """Check that argument `name` has only fixed sizes."""
    if not shape.is_static:
        number = shape.dynamic_dimensions.index(True)
        rule = f"{name} must have fixed sizes"
        raise error_of(ShapeInferenceError, op, rule, got=shape, dimension=number)


def fixed_size(op: str, name: str, shape: ArrayShape, dimension: int) -> int:
    """Return the size of a dimension of argument `name`, which must be fixed."""
    if shape.dynamic_dimensions[dimension]:
        rule = f"dimension {dimension} of {name} must have a fixed size"
        raise error_of(ShapeInferenceError, op, rule, got=shape, dimension=dimension)
    return shape.dimensions[dimension]


def indexed_size(op: str, name: str, shape: ArrayShape, dimension: int) -> int:
    """Return the size of a dimension of argument `name`, which must be fixed and at least 1."""
    size = fixed_size(op, name, shape, dimension)
    if size == 0:
        rule = f"dimension {dimension} of {name} must not be empty"
        raise error_of(ShapeInferenceError, op, rule, got=shape, dimension=dimension)
    return size


def indices_argument(op: str, name: str, value: Any) -> ArrayShape:
    """Return the shape of argument `name`, which must be an array of integers."""
    shape = array_argument(op, name, value)
    if not shape.element_type.is_integral:
        rule = f"{name} must be of integer type"
        raise error_of(ShapeInferenceError, op, rule, CONVERT, got=shape)
    return shape


def static_shape_argument(op: str, name: str, value: ShapeLike) -> ArrayShape:
    """Return argument `name`, the shape of an array of fixed sizes."""
    shape = shape_argument(op, name, value)
    if not isinstance(shape, ArrayShape):
        raise error_of(OperandError, op, f"{name} must be an array shape", got=shape)
    static_argument(op, name, shape)
    return shape


def float_info(element_type: PrimitiveType) -> Any:
    """Return the limits of a floating-point type, like `numpy.finfo`."""
    import ml_dtypes  # imported late, because it takes as long as all of `builder`

    dtype = element_type.dtype
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # ml_dtypes does not type it


def as_type(x: XlaOp, element_type: PrimitiveType) -> XlaOp:
    """Return `x` in `element_type`; no op is recorded if it has this type."""
    return x if x.shape.element_type is element_type else convert_element_type(x, element_type)


def widened(x: XlaOp) -> XlaOp:
    """Return `x` in f32 if its floating-point type is narrower.

    A function that would round several times computes in this type, and rounds its result once.
    """
    element_type = x.shape.element_type
    narrow = element_type.is_floating and element_type.bits < f32.bits
    return as_type(x, f32) if narrow else x
