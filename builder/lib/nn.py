"""Activation functions and normalized exponentials of neural networks.

`axis` may be negative, and then counts from the last dimension. Types narrower than f32 are
computed in f32, and the result is rounded once.
"""

from __future__ import annotations

import math

from builder.check import flag
from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    array_argument,
    as_type,
    axis_argument,
    floating_argument,
    widened,
)
from builder.lib.reductions import others
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.reduction import reduce
from builder.types.primitive_type import pred


@library_function()
def relu(x: XlaOp) -> XlaOp:
    """Return max(x, 0) for each element; NaNs remain.

    Args:
        x: an array of real numbers.

    Raises:
        ShapeInferenceError: the type is pred or complex.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.relu(xb.XlaBuilder().parameter(xb.f32[4, 3])).shape
        f32[4,3]
    """
    shape = array_argument("relu", "x", x)
    if shape.element_type is pred or shape.element_type.is_complex:
        raise error_of(ShapeInferenceError, "relu", f"x must be of real numbers, got {shape}")
    return ew.max(x, 0)


@library_function()
def sigmoid(x: XlaOp) -> XlaOp:
    """Return 1 / (1 + exp(-x)) for each element.

    Args:
        x: an array of floating-point numbers.

    Raises:
        ShapeInferenceError: the type is not a floating-point type.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.sigmoid(xb.XlaBuilder().parameter(xb.f32[4])).shape
        f32[4]
    """
    shape = floating_argument("sigmoid", "x", x)
    return as_type(ew.logistic(widened(x)), shape.element_type)


@library_function()
def silu(x: XlaOp) -> XlaOp:
    """Return x * sigmoid(x) for each element; NaN for -inf.

    Args:
        x: an array of floating-point numbers.

    Raises:
        ShapeInferenceError: the type is not a floating-point type.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.silu(xb.XlaBuilder().parameter(xb.f32[4])).shape
        f32[4]
    """
    shape = floating_argument("silu", "x", x)
    wide = widened(x)
    return as_type(wide * ew.logistic(wide), shape.element_type)


@library_function()
def gelu(x: XlaOp, approximate: bool = True) -> XlaOp:
    """Return x times the standard normal distribution function of x; NaN for -inf.

    Args:
        x: an array of floating-point numbers.
        approximate: whether the distribution function is approximated with tanh; otherwise it is
            computed with erf, whose relative error grows for very negative numbers.

    Raises:
        ShapeInferenceError: the type is not a floating-point type; `approximate` is not a bool.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.gelu(xb.XlaBuilder().parameter(xb.bf16[4]), approximate=False).shape
        bf16[4]
    """
    shape = floating_argument("gelu", "x", x)
    wide = widened(x)
    if flag("gelu", "approximate", approximate):
        inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * (wide * wide * wide))
        # (1 + tanh(u)) / 2, without its cancellation for negative u.
        distribution = ew.logistic(2.0 * inner)
    else:
        distribution = (ew.erf(wide * math.sqrt(0.5)) + 1.0) * 0.5
    return as_type(wide * distribution, shape.element_type)


@library_function()
def softmax(x: XlaOp, axis: int = -1) -> XlaOp:
    """Return exp(x) divided by its sum along a dimension, without overflow.

    Args:
        x: an array of floating-point numbers.
        axis: a dimension. Where all of its elements are -inf, the results are NaN.

    Raises:
        ShapeInferenceError: the type is not a floating-point type; the dimension is out of range.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.softmax(xb.XlaBuilder().parameter(xb.f32[4, 3])).shape
        f32[4,3]
    """
    shifted, axes, rest = _shifted("softmax", x, axis)
    exponentials = ew.exp(shifted)
    total = reduce(exponentials, 0.0, ew.add, axes)
    return as_type(ew.div(exponentials, total, rest), x.shape.element_type)


@library_function()
def log_softmax(x: XlaOp, axis: int = -1) -> XlaOp:
    """Return the logarithm of `softmax`, computed without the quotient.

    Args:
        x: an array of floating-point numbers.
        axis: a dimension. Where all of its elements are -inf, the results are NaN.

    Raises:
        ShapeInferenceError: the type is not a floating-point type; the dimension is out of range.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.log_softmax(xb.XlaBuilder().parameter(xb.f32[4, 3]), axis=0).shape
        f32[4,3]
    """
    shifted, axes, rest = _shifted("log_softmax", x, axis)
    total = reduce(ew.exp(shifted), 0.0, ew.add, axes)
    return as_type(ew.sub(shifted, ew.log(total), rest), x.shape.element_type)


def _shifted(op: str, x: XlaOp, axis: int) -> tuple[XlaOp, tuple[int, ...], list[int]]:
    """Return x minus its maximum along the axis, the axis, and the other dimensions."""
    shape = floating_argument(op, "x", x)
    axes = (axis_argument(op, "axis", axis, shape.rank),)
    rest = others(shape.rank, axes)
    wide = widened(x)
    return ew.sub(wide, reduce(wide, -math.inf, ew.max, axes), rest), axes, rest
