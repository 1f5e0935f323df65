"""Layers of neural networks: activation functions, normalizations, losses.

`axis` may be negative, and then counts from the last dimension. Types narrower than f32 are
computed in f32, and the result is rounded once.

Batch normalization is an op: `xb.batch_norm_training` and `xb.batch_norm_inference`.
"""

from __future__ import annotations

import math

import numpy as np

from builder.attributes import DotDimensionNumbers
from builder.checking import CONVERT, flag, sizes_differ
from builder.errors import ShapeInferenceError, brief, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    Axes,
    array_argument,
    as_type,
    axes_argument,
    axis_argument,
    finite_number,
    floating_argument,
    ordered_argument,
    shape_of,
    typed_argument,
    widened,
)
from builder.lib.dynamic import closed_argument, indices_of
from builder.lib.random import key_argument, random_choice
from builder.lib.reductions import mean, others, widened_largest
from builder.lib.registry import library_function
from builder.lib.special.error_functions import times_normal_distribution
from builder.ops import elementwise as ew
from builder.ops.contraction import dot_general
from builder.ops.control_flow import DERIVATIVE, ZERO_DERIVATIVE, optimization_barrier
from builder.ops.operands import need_op
from builder.ops.reduction import reduce
from builder.types.primitive_type import pred, s32, s64
from builder.types.shape import array_shape


@library_function()
def stop_gradient(x: XlaOp) -> XlaOp:
    """Return x, and treat it as a constant in derivatives, like jax.lax.stop_gradient.

    The function records an `optimization_barrier` with a frontend attribute, so derivatives of
    files respect it too. `lowering.compile` removes the barrier, so it does not keep XLA from
    fusing operations.

    Args:
        x: an array of any type, or a tuple.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[3], "x")
        >>> lib.stop_gradient(x).frontend_attributes
        {'xlabuilder.derivative': 'zero'}
    """
    source = need_op("stop_gradient", "x", x)
    with source.builder._innermost().frontend_attributes({DERIVATIVE: ZERO_DERIVATIVE}):
        return optimization_barrier(source)


@library_function(has_derivative=True)
def relu(x: XlaOp) -> XlaOp:
    """Return max(x, 0) for each element; NaNs remain.

    The derivative at 0 is 0.

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
    if ordered_argument("relu", "x", x).element_type is pred:
        rule = "x must be of numbers"
        raise error_of(ShapeInferenceError, "relu", rule, CONVERT, got=x.shape)
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


@library_function(has_derivative=True)
def gelu(x: XlaOp, approximate: bool = True) -> XlaOp:
    """Return x times the standard normal distribution function of x.

    Args:
        x: an array of floating-point numbers.
        approximate: whether the distribution function is approximated with tanh, which gives NaN
            for -inf; otherwise it is accurate to a few ulps, also for very negative numbers.

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
    if not flag("gelu", "approximate", approximate):
        return as_type(times_normal_distribution(wide), shape.element_type)
    # (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 u)), which does not cancel for negative u.
    factor = -2.0 * math.sqrt(2 / math.pi)
    exponent = wide * (factor + factor * 0.044715 * (wide * wide))
    return as_type(wide / (1.0 + ew.exp(exponent)), shape.element_type)


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


@library_function(has_derivative=True)
def cross_entropy(logits: XlaOp, labels: XlaOp, axis: int = -1) -> XlaOp:
    """Return the cross-entropy of labels and the softmax of logits, for each example.

    Args:
        logits: an array of floating-point numbers.
        labels: either the numbers of the classes, integers of the sizes of `logits` without the
            dimension `axis`, where a number out of range gives infinity; or probabilities of the
            shape of `logits`, where a class of probability 0 does not count.
        axis: the dimension of the classes.

    Returns:
        An array of the type of `logits`, without the dimension `axis`.

    Raises:
        ShapeInferenceError: the types or sizes do not match; the dimension is out of range.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> logits, labels = b.parameter(xb.f32[32, 10]), b.parameter(xb.s32[32])
        >>> lib.cross_entropy(logits, labels).shape
        f32[32]
    """
    floating_argument("cross_entropy", "logits", logits)
    shifted, axes, rest = _shifted("cross_entropy", logits, axis)
    shape, given = shape_of(logits), array_argument("cross_entropy", "labels", labels)
    classes = tuple(shape.dimensions[n] for n in rest)
    if not (
        (given.element_type.is_integral and given.dimensions == classes)
        or (given.element_type, given.dimensions) == (shape.element_type, shape.dimensions)
    ):
        rule = (
            "labels must be integers of the sizes of logits without the dimension of the classes, "
            f"or probabilities of the shape of logits {shape}"
        )
        fix = f"pass labels of shape {array_shape(s32, classes)}"
        if given.dimensions in (classes, shape.dimensions):
            kind = s32 if given.dimensions == classes else shape.element_type
            fix = f"convert the labels with xb.convert_element_type(labels, xb.{kind})"
        raise error_of(
            ShapeInferenceError, "cross_entropy", rule, fix, got=given, shapes={"logits": shape}
        )
    total = reduce(ew.exp(shifted), 0.0, ew.add, axes)
    if given.element_type.is_integral:
        # A type that has all labels and all numbers of classes.
        is_wide = given.element_type.bits >= s32.bits
        number_type = given.element_type if is_wide else s32
        if shape.dimensions[axes[0]] > number_type.max:
            number_type = s64
        numbers = indices_of(logits, number_type, axes[0])
        is_label = ew.eq(numbers, as_type(labels, number_type), rest)
        chosen = reduce(ew.select(is_label, shifted, -math.inf), -math.inf, ew.max, axes)
        loss = ew.log(total) - chosen
    else:
        losses = ew.sub(ew.log(total), shifted, rest)
        losses = ew.select(ew.eq(labels, 0), 0.0, widened(labels) * losses)
        loss = reduce(losses, 0.0, ew.add, axes)
    return as_type(loss, shape.element_type)


@library_function()
def linear(x: XlaOp, weights: XlaOp, bias: XlaOp | None = None) -> XlaOp:
    """Return the product of the last dimension of x with a matrix, plus a bias.

    Args:
        x: an array ``[..., M]`` of floating-point numbers.
        weights: an array ``[M, N]`` of the type of `x`, with more dimensions if the result shall
            have more.
        bias: an array ``[N]`` of the type of `x`, with all dimensions of `weights` except the
            first.

    Returns:
        An array ``[..., N]``.

    Raises:
        ShapeInferenceError: the types or sizes do not match; an array is a scalar.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, weights = b.parameter(xb.bf16[8, 16, 64]), b.parameter(xb.bf16[64, 4, 32])
        >>> lib.linear(x, weights).shape
        bf16[8,16,4,32]
    """
    shape = floating_argument("linear", "x", x)
    matrix = typed_argument("linear", "weights", weights, shape.element_type)
    if not (shape.rank and matrix.rank):
        rule = "x and weights must have dimensions"
        raise error_of(ShapeInferenceError, "linear", rule, got=f"{shape} and {matrix}")
    if sizes_differ(shape.dimensions[-1], matrix.dimensions[0]):
        fix = ""
        if matrix.rank == 2 and not sizes_differ(shape.dimensions[-1], matrix.dimensions[1]):
            fix = "transpose weights first with xb.transpose(weights, [1, 0])"
        rule = "dimension 0 of weights must have the size of the last dimension of x"
        got = f"{matrix.dimension_text(0)} and {shape.dimension_text(shape.rank - 1)}"
        shapes = {"x": shape, "weights": matrix}
        raise error_of(ShapeInferenceError, "linear", rule, fix, got=got, shapes=shapes)
    products = DotDimensionNumbers((shape.rank - 1,), (0,))
    if bias is None:
        return dot_general(x, weights, products)
    given = typed_argument("linear", "bias", bias, shape.element_type)
    if given.dimensions != matrix.dimensions[1:]:
        rule = f"bias must have the sizes {list(matrix.dimensions[1:])}"
        raise error_of(ShapeInferenceError, "linear", rule, got=given, shapes={"weights": matrix})
    # Products of types narrower than f32 remain in f32 for the bias.
    wide = widened(bias)
    result = dot_general(x, weights, products, preferred_element_type=shape_of(wide).element_type)
    last = range(shape.rank - 1, shape_of(result).rank)
    return as_type(ew.add(result, wide, last), shape.element_type)


def _shifted(op: str, x: XlaOp, axis: int) -> tuple[XlaOp, tuple[int, ...], list[int]]:
    """Return x minus its maximum along the axis, the axis, and the other dimensions."""
    shape = floating_argument(op, "x", x)
    axes = (axis_argument(op, "axis", axis, shape.rank),)
    rest = others(shape.rank, axes)
    return ew.sub(widened(x), widened_largest(x, axes), rest), axes, rest


@library_function()
def dropout(key: XlaOp, x: XlaOp, rate: float) -> XlaOp:
    """Return an array with random elements replaced by 0, and the others divided by 1 - `rate`.

    Args:
        key: a key, see `random_key`. It decides which elements become 0.
        x: an array of floating-point numbers, less than 2**32 of them if a size is unbounded.
        rate: the probability of 0, a number from 0 to 1.

    Raises:
        OperandError: `key` is not a key.
        ShapeInferenceError: the type is not a floating-point type; a size is bounded; `rate` is not
            a number from 0 to 1.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, key = b.parameter(xb.bf16[4, 3]), lib.random_key(b, 42)
        >>> lib.dropout(key, x, 0.1).shape
        bf16[4,3]
    """
    words = key_argument("dropout", key)
    shape = floating_argument("dropout", "x", x)
    closed_argument("dropout", "x", shape)
    is_number = isinstance(rate, (int, float, np.integer, np.floating))
    if not is_number or isinstance(rate, bool) or not 0 <= rate <= 1:
        rule = "rate must be a number from 0 to 1"
        fix = "use lib.bernoulli and lib.where for a probability at run time"
        raise error_of(ShapeInferenceError, "dropout", rule, fix, got=brief(rate, 80))
    kept = 1 - float(rate)
    is_kept = random_choice(words, kept, x)
    # The quotient of all elements is finite even where no element is kept.
    scaled = as_type(widened(x) / (kept or 1.0), shape.element_type)
    return ew.select(is_kept, scaled, 0)


@library_function()
def layer_norm(
    x: XlaOp,
    scale: XlaOp | None = None,
    offset: XlaOp | None = None,
    axis: Axes = -1,
    epsilon: float = 1e-5,
) -> XlaOp:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + offset, along dimensions.

    Args:
        x: an array of floating-point numbers.
        scale, offset: arrays of the type of `x` and of its sizes along the dimensions, in their
            order in `x`.
        axis: a dimension, several, or None for all; they may be negative.
        epsilon: is added to the variance.

    Raises:
        OperandError: `epsilon` is not a finite number of at least 0.
        ShapeInferenceError: types or sizes do not match; a dimension is out of range or named
            twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, scale = b.parameter(xb.bf16[4, 16, 64]), b.parameter(xb.bf16[64])
        >>> lib.layer_norm(x, scale).shape
        bf16[4,16,64]
    """
    axes, rest = _normalized_axes("layer_norm", x, axis, {"scale": scale, "offset": offset})
    wide = widened(x)
    difference = ew.sub(wide, mean(wide, axes), rest)
    return _normalized("layer_norm", x, difference, axes, epsilon, scale, offset)


@library_function()
def rms_norm(x: XlaOp, scale: XlaOp | None = None, axis: Axes = -1, epsilon: float = 1e-6) -> XlaOp:
    """Return x / sqrt(mean(x * x) + epsilon) * scale, along dimensions.

    Args:
        x: an array of floating-point numbers.
        scale: an array of the type of `x` and of its sizes along the dimensions, in their order in
            `x`.
        axis: a dimension, several, or None for all; they may be negative.
        epsilon: is added to the mean.

    Raises:
        OperandError: `epsilon` is not a finite number of at least 0.
        ShapeInferenceError: types or sizes do not match; a dimension is out of range or named
            twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, scale = b.parameter(xb.f32[4, 16, 64]), b.parameter(xb.f32[64])
        >>> lib.rms_norm(x, scale).shape
        f32[4,16,64]
    """
    axes, _ = _normalized_axes("rms_norm", x, axis, {"scale": scale})
    return _normalized("rms_norm", x, widened(x), axes, epsilon, scale, None)


def _normalized_axes(
    op: str, x: XlaOp, axis: Axes, factors: dict[str, XlaOp | None]
) -> tuple[tuple[int, ...], list[int]]:
    """Check the arrays; return the dimensions in ascending order, and the others."""
    shape = floating_argument(op, "x", x)
    axes = tuple(sorted(axes_argument(op, axis, shape.rank)))
    sizes = tuple(shape.dimensions[n] for n in axes)
    for name, factor in factors.items():
        if factor is None:
            continue
        given = typed_argument(op, name, factor, shape.element_type)
        if given.dimensions != sizes:
            rule = f"{name} must have the sizes {list(sizes)} of the dimensions {list(axes)} of x"
            raise error_of(ShapeInferenceError, op, rule, got=given, shapes={"x": shape})
    return axes, others(shape.rank, axes)


def _normalized(
    op: str,
    x: XlaOp,
    wide: XlaOp,
    axes: tuple[int, ...],
    epsilon: float,
    scale: XlaOp | None,
    offset: XlaOp | None,
) -> XlaOp:
    added = finite_number(op, "epsilon", epsilon, 0)
    factor = ew.rsqrt(mean(ew.square(wide), axes) + added)
    result = ew.mul(wide, factor, others(shape_of(wide).rank, axes))
    if scale is not None:
        result = ew.mul(result, widened(scale), axes)
    if offset is not None:
        result = ew.add(result, widened(offset), axes)
    return as_type(result, x.shape.element_type)
