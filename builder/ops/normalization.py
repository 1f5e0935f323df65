"""Batch normalization.

Operation Semantics: BatchNormGrad, BatchNormInference, BatchNormTraining.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any

import numpy as np

from builder.check import integer
from builder.errors import ShapeInferenceError, brief
from builder.graph.recording import record
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op
from builder.schema import SCHEMAS
from builder.shape_inference import normalization as infer
from builder.support.signatures import per_signature

__all__ = ["batch_norm_grad", "batch_norm_inference", "batch_norm_training"]

_grad_shape = per_signature(infer.batch_norm_grad.strict)
_inference_shape = per_signature(infer.batch_norm_inference.strict)
_training_shape = per_signature(infer.batch_norm_training.strict)


@per_signature
def _attributes(epsilon: float, feature_index: int) -> Mapping[str, Any]:
    return MappingProxyType({"epsilon": epsilon, "feature_index": feature_index})


def _need_ops(op: str, names: str, values: tuple[XlaOp, ...]) -> None:
    """Raises unless the values, with the names of the arguments, are XlaOps."""
    for value in values:
        if type(value) is not XlaOp:
            for name, one in zip(names.split(), values, strict=True):
                need_op(op, name, one)


def _epsilon(op: str, value: Any) -> float:
    """`value` as the f32 that XLA keeps it as."""
    if type(value) is float:
        single = _single(value)
    elif isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool):
        try:
            single = _single(float(value))
        except OverflowError:  # an int beyond all floats
            single = np.inf
    else:
        single = np.inf
    if not isfinite(single):
        raise ShapeInferenceError(
            f"{op}: epsilon must be a finite number that an f32 can hold, got {brief(value)}",
            op=op,
        )
    return single


@per_signature
def _single(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


@op(SCHEMAS["batch_norm_training"])
def batch_norm_training(
    operand: XlaOp, scale: XlaOp, offset: XlaOp, epsilon: float, feature_index: int
) -> XlaOp:
    """An array normalized, and the mean and variance of each of its features.

    For each feature, over all other dimensions, the mean and the variance of the operand's
    elements x are computed, and ``scale * (x - mean) / sqrt(variance + epsilon) + offset``.

    Args:
        operand: an array of floating-point type and at least one dimension.
        scale, offset: vectors of its element type, with one number for each feature.
        epsilon: a finite number, kept as an f32, so that nothing is divided by 0.
        feature_index: the dimension of the operand that numbers features.

    Returns:
        A tuple: the normalized array, of the operand's shape; the vector of the features' means;
        that of their variances (the mean of squared differences, not divided by one less).

    Raises:
        ShapeInferenceError: another type than floating-point, or several; no such dimension; a
            vector of another size; `epsilon` is no such number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[32, 8, 8, 3]), b.parameter(xb.f32[3])
        >>> xb.batch_norm_training(x, v, v, epsilon=1e-5, feature_index=3).shape
        (f32[32,8,8,3], f32[3], f32[3])

    Operation Semantics: BatchNormTraining.
    """
    operands = (operand, scale, offset)
    _need_ops("batch_norm_training", "operand scale offset", operands)
    number = integer("batch_norm_training", "feature_index", feature_index)
    attributes = _attributes(_epsilon("batch_norm_training", epsilon), number)
    shape = _training_shape(operand.shape, scale.shape, offset.shape, number)
    return record("batch_norm_training", shape, operands, attributes)


@op(SCHEMAS["batch_norm_inference"])
def batch_norm_inference(
    operand: XlaOp,
    scale: XlaOp,
    offset: XlaOp,
    mean: XlaOp,
    variance: XlaOp,
    epsilon: float,
    feature_index: int,
) -> XlaOp:
    """An array normalized with a mean and a variance that are given for each of its features.

    What `batch_norm_training` computes, ``scale * (x - mean) / sqrt(variance + epsilon) + offset``,
    with estimates for mean and variance.

    Args:
        operand: an array of floating-point type and at least one dimension.
        scale, offset, mean, variance: vectors of its element type, with one number for each
            feature.
        epsilon: a finite number, kept as an f32, so that nothing is divided by 0.
        feature_index: the dimension of the operand that numbers features.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: another type than floating-point, or several; no such dimension; a
            vector of another size; `epsilon` is no such number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[32, 8, 8, 3]), b.parameter(xb.f32[3])
        >>> xb.batch_norm_inference(x, v, v, v, v, epsilon=1e-5, feature_index=3).shape
        f32[32,8,8,3]

    Operation Semantics: BatchNormInference.
    """
    operands = (operand, scale, offset, mean, variance)
    _need_ops("batch_norm_inference", "operand scale offset mean variance", operands)
    number = integer("batch_norm_inference", "feature_index", feature_index)
    attributes = _attributes(_epsilon("batch_norm_inference", epsilon), number)
    shape = _inference_shape(
        operand.shape, scale.shape, offset.shape, mean.shape, variance.shape, number
    )
    return record("batch_norm_inference", shape, operands, attributes)


@op(SCHEMAS["batch_norm_grad"])
def batch_norm_grad(
    operand: XlaOp,
    scale: XlaOp,
    mean: XlaOp,
    variance: XlaOp,
    grad_output: XlaOp,
    epsilon: float,
    feature_index: int,
) -> XlaOp:
    """The gradients of `batch_norm_training` with respect to its operand, scale and offset.

    Args:
        operand, scale: what was given to `batch_norm_training`: an array of floating-point type,
            and a vector with one number for each feature.
        mean, variance: what it gave: vectors with one number for each feature.
        grad_output: the gradient with respect to the normalized array, of the operand's sizes.
        epsilon: as it was given there.
        feature_index: the dimension of the operand that numbers features.

    Returns:
        A tuple: the gradients with respect to the operand, of its shape, and to the scale and to
        the offset, vectors of one number for each feature.

    Raises:
        ShapeInferenceError: another type than floating-point, or several; no such dimension;
            another size; `epsilon` is no such number.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, v = b.parameter(xb.f32[32, 8, 8, 3]), b.parameter(xb.f32[3])
        >>> y, mean, variance = xb.batch_norm_training(x, v, v, 1e-5, 3)
        >>> xb.batch_norm_grad(x, v, mean, variance, y, epsilon=1e-5, feature_index=3).shape
        (f32[32,8,8,3], f32[3], f32[3])

    Operation Semantics: BatchNormGrad.
    """
    operands = (operand, scale, mean, variance, grad_output)
    _need_ops("batch_norm_grad", "operand scale mean variance grad_output", operands)
    number = integer("batch_norm_grad", "feature_index", feature_index)
    attributes = _attributes(_epsilon("batch_norm_grad", epsilon), number)
    shape = _grad_shape(
        operand.shape, scale.shape, mean.shape, variance.shape, grad_output.shape, number
    )
    return record("batch_norm_grad", shape, operands, attributes)
