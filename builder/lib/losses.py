"""Losses of predictions and targets, as means over dimensions.

`axis` may be negative, and then counts from the last dimension. With ``axis=()`` the result is the
loss of each element. Types narrower than f32 are computed in f32, and the result is rounded once.
The loss for a classification is `lib.cross_entropy`.
"""

from __future__ import annotations

from builder.checking import CONVERT
from builder.errors import OperandError, ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    Axes,
    array_argument,
    as_type,
    finite_number,
    floating_argument,
    shape_of,
    widened,
)
from builder.lib.reductions import mean
from builder.lib.registry import library_function
from builder.ops import elementwise as ew


@library_function()
def mse(predictions: XlaOp, targets: XlaOp, axis: Axes = None) -> XlaOp:
    """Return the mean squared error: the means of the squared differences along dimensions.

    Args:
        predictions, targets: arrays of one shape and of one floating-point type.
        axis: a dimension, several, or None for all.

    Raises:
        ShapeInferenceError: the types or sizes differ; a dimension is out of range or named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> y, wanted = b.parameter(xb.f32[32, 10]), b.parameter(xb.f32[32, 10])
        >>> lib.mse(y, wanted).shape, lib.mse(y, wanted, axis=-1).shape
        (f32[], f32[32])
    """
    _check_pair("mse", "targets", predictions, targets)
    difference = widened(predictions) - widened(targets)
    return _mean(difference * difference, predictions, axis)


@library_function()
def huber(predictions: XlaOp, targets: XlaOp, delta: float = 1.0, axis: Axes = None) -> XlaOp:
    """Return the means of the Huber loss along dimensions.

    The loss is half the square of the difference if the difference is at most `delta`. For larger
    differences it grows linearly, with the slope `delta`.

    Args:
        predictions, targets: arrays of one shape and of one floating-point type.
        delta: a positive number.
        axis: a dimension, several, or None for all.

    Raises:
        OperandError: `delta` is not a positive number.
        ShapeInferenceError: the types or sizes differ; a dimension is out of range or named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> y, wanted = b.parameter(xb.f32[32]), b.parameter(xb.f32[32])
        >>> lib.huber(y, wanted, delta=0.5).shape
        f32[]
    """
    _check_pair("huber", "targets", predictions, targets)
    limit = finite_number("huber", "delta", delta)
    if limit <= 0:
        raise error_of(OperandError, "huber", "delta must be greater than 0", got=delta)
    distance = ew.abs(widened(predictions) - widened(targets))
    is_near = ew.le(distance, limit)
    # The square of a large distance is not selected, but its derivative would be infinite.
    near = ew.select(is_near, distance, 0.0)
    losses = ew.select(is_near, near * (near * 0.5), limit * (distance - limit * 0.5))
    return _mean(losses, predictions, axis)


@library_function()
def binary_cross_entropy(logits: XlaOp, labels: XlaOp, axis: Axes = None) -> XlaOp:
    """Return the means, along dimensions, of the cross-entropy of labels and the sigmoid of logits.

    Args:
        logits: an array of floating-point numbers: the logarithms of the odds.
        labels: an array of the shape of `logits`: preds, or probabilities of the type of `logits`.
        axis: a dimension, several, or None for all.

    Raises:
        ShapeInferenceError: the types or sizes do not match; a dimension is out of range or named
            twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> logits, labels = b.parameter(xb.f32[32]), b.parameter(xb.pred[32])
        >>> lib.binary_cross_entropy(logits, labels).shape
        f32[]
    """
    shape = floating_argument("binary_cross_entropy", "logits", logits)
    given = array_argument("binary_cross_entropy", "labels", labels)
    if given.element_type.name == "pred" and given.dimensions == shape.dimensions:
        labels = as_type(labels, shape.element_type)
    _check_pair("binary_cross_entropy", "labels", logits, labels)
    x, y = widened(logits), widened(labels)
    # log(1 + exp(x)) - x * y, without an overflow of the exponential.
    size = ew.abs(x)
    # (x + |x|) / 2 is max(x, 0), and has the derivative 1/2 at 0, as the whole has.
    softplus = (x + size) * 0.5 + ew.log1p(ew.exp(-size))
    return _mean(softplus - x * y, logits, axis)


def _check_pair(op: str, name: str, predictions: XlaOp, targets: XlaOp) -> None:
    first = "logits" if name == "labels" else "predictions"
    shape = floating_argument(op, first, predictions)
    given = array_argument(op, name, targets)
    if given.with_layout(None) is shape.with_layout(None):
        return
    rule = f"{name} must have the shape of {first}"
    fix = f"{CONVERT}" if given.dimensions == shape.dimensions else "reshape or broadcast it"
    raise error_of(ShapeInferenceError, op, rule, fix, got=given, shapes={first: shape})


def _mean(losses: XlaOp, predictions: XlaOp, axis: Axes) -> XlaOp:
    return as_type(mean(losses, axis), shape_of(predictions).element_type)
