"""Batch normalization.

Operation Semantics: BatchNormGrad, BatchNormInference, BatchNormTraining.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isfinite
from struct import pack, unpack
from types import MappingProxyType
from typing import Any

import numpy as np

from builder.check import integer
from builder.errors import ShapeInferenceError, brief, error_of
from builder.graph.recording import record
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op
from builder.ops.rules import normalization as infer
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.shape import Shape

_grad_shape = per_signature(infer.batch_norm_grad.strict)
_inference_shape = per_signature(infer.batch_norm_inference.strict)
_training_shape = per_signature(infer.batch_norm_training.strict)


def _record(
    name: str,
    infer_shape: Callable[..., Shape],
    ops: tuple[XlaOp, ...],
    epsilon: Any,
    feature_index: Any,
) -> XlaOp:
    """Check the rules of a batch normalization and record the op."""
    for index, operand in enumerate(ops):
        if type(operand) is not XlaOp:
            need_op(name, SCHEMAS[name].operands.split()[index], operand)
    number = integer(name, "feature_index", feature_index)
    attributes = _attributes(_epsilon(name, epsilon), number)
    return record(name, infer_shape(*[o.shape for o in ops], number), ops, attributes, 3)


@per_signature
def _attributes(epsilon: float, feature_index: int) -> Mapping[str, Any]:
    return MappingProxyType({"epsilon": epsilon, "feature_index": feature_index})


def _epsilon(name: str, value: Any) -> float:
    """Return `value` rounded to f32, the type in which XLA stores it."""
    rounded = None
    if type(value) is float:
        rounded = _as_f32(value)
    elif isinstance(value, (int, np.floating, np.integer)) and not isinstance(value, bool):
        with suppress(OverflowError):  # an int larger than every float
            rounded = _as_f32(float(value))
    if rounded is None:
        rule = f"epsilon must be a finite number that an f32 can represent, got {brief(value)}"
        raise error_of(ShapeInferenceError, name, rule)
    return rounded


@per_signature
def _as_f32(value: float) -> float | None:
    """Return the f32 nearest to a number; None if this f32 is not finite."""
    try:
        rounded: float = unpack("f", pack("f", value))[0]
    except OverflowError:
        return None
    return rounded if isfinite(rounded) else None


@op_by_hand(SCHEMAS["batch_norm_training"])
def batch_norm_training(
    operand: XlaOp, scale: XlaOp, offset: XlaOp, epsilon: float, feature_index: int
) -> XlaOp:
    """Normalize an array by the mean and variance of each feature; return both statistics as well.

    The mean and the variance of a feature are computed over all other dimensions. Each element x
    becomes ``scale * (x - mean) / sqrt(variance + epsilon) + offset``.

    Args:
        operand: an array of floating-point type and at least one dimension.
        scale, offset: vectors of its element type, with one element for each feature.
        epsilon: a finite number, stored as f32, that prevents division by 0.
        feature_index: the feature dimension of the operand.

    Returns:
        A tuple: the normalized array, of the operand's shape; the vector of means; the vector of
        variances (the mean of squared differences, without Bessel's correction).

    Raises:
        ShapeInferenceError: an element type is not floating-point, or element types differ;
            `feature_index` is out of range; a vector does not have one element for each feature;
            `epsilon` is not finite in f32.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[32, 8, 8, 3]), b.parameter(xb.f32[3])
        >>> xb.batch_norm_training(x, v, v, epsilon=1e-5, feature_index=3).shape
        (f32[32,8,8,3], f32[3], f32[3])

    Operation Semantics: BatchNormTraining.
    """
    ops = operand, scale, offset
    return _record("batch_norm_training", _training_shape, ops, epsilon, feature_index)


@op_by_hand(SCHEMAS["batch_norm_inference"])
def batch_norm_inference(
    operand: XlaOp,
    scale: XlaOp,
    offset: XlaOp,
    mean: XlaOp,
    variance: XlaOp,
    epsilon: float,
    feature_index: int,
) -> XlaOp:
    """Normalize an array by given means and variances of the features.

    Each element x becomes ``scale * (x - mean) / sqrt(variance + epsilon) + offset``, as in
    `batch_norm_training`, with the mean and the variance passed as operands.

    Args:
        operand: an array of floating-point type and at least one dimension.
        scale, offset, mean, variance: vectors of its element type, with one element for each
            feature.
        epsilon: a finite number, stored as f32, that prevents division by 0.
        feature_index: the feature dimension of the operand.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: see `batch_norm_training`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[32, 8, 8, 3]), b.parameter(xb.f32[3])
        >>> xb.batch_norm_inference(x, v, v, v, v, epsilon=1e-5, feature_index=3).shape
        f32[32,8,8,3]

    Operation Semantics: BatchNormInference.
    """
    ops = operand, scale, offset, mean, variance
    return _record("batch_norm_inference", _inference_shape, ops, epsilon, feature_index)


@op_by_hand(SCHEMAS["batch_norm_grad"])
def batch_norm_grad(
    operand: XlaOp,
    scale: XlaOp,
    mean: XlaOp,
    variance: XlaOp,
    grad_output: XlaOp,
    epsilon: float,
    feature_index: int,
) -> XlaOp:
    """Return the gradients of `batch_norm_training` with respect to its operand, scale and offset.

    Args:
        operand, scale: the operands of `batch_norm_training`: an array of floating-point type, and
            a vector with one element for each feature.
        mean, variance: the vectors of means and variances that `batch_norm_training` returned.
        grad_output: the gradient with respect to the normalized array, of the operand's sizes.
        epsilon: the epsilon of `batch_norm_training`.
        feature_index: the feature dimension of the operand.

    Returns:
        A tuple: the gradient with respect to the operand, of its shape; the gradients with
        respect to the scale and the offset, vectors with one element for each feature.

    Raises:
        ShapeInferenceError: see `batch_norm_training`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[32, 8, 8, 3]), b.parameter(xb.f32[3])
        >>> y, mean, variance = xb.batch_norm_training(x, v, v, 1e-5, 3)
        >>> xb.batch_norm_grad(x, v, mean, variance, y, epsilon=1e-5, feature_index=3).shape
        (f32[32,8,8,3], f32[3], f32[3])

    Operation Semantics: BatchNormGrad.
    """
    ops = operand, scale, mean, variance, grad_output
    return _record("batch_norm_grad", _grad_shape, ops, epsilon, feature_index)
