"""Batch normalization.

Operation Semantics: BatchNormGrad, BatchNormInference, BatchNormTraining.
"""

from __future__ import annotations

import math
from typing import Any, Final

from builder.checking import CONVERT, Check, sizes_differ
from builder.graph.xla_op import XlaOp
from builder.ops.definition import op
from builder.schema import SCHEMAS
from builder.schema.definition import FLOATING, Attribute, Schema, Tolerance, define
from builder.schema.equal_sizes import Pairs, SizedOp, pairs
from builder.schema.kinds import FLOAT32, INTEGER
from builder.types.shape import ArrayShape, Shape, TupleShape, intern_array


def _feature(check: Check, feature_index: int, *names: str) -> tuple[ArrayShape, ArrayShape]:
    """Check the operands; return the shapes of the normalized result and of a feature vector.

    A feature vector has one number for each feature; the operands `names` must be feature vectors.
    """
    operand = check.arrays()[0]
    # StableHLO batch_norm_training (I1-I3), (C1), (C2)
    check.element_types(SCHEMAS[check.op].element_types, fix=CONVERT)
    check.dimension(feature_index, of="operand", name="feature_index")
    check.same_element_type()
    size = operand.dimensions[feature_index]
    # StableHLO batch_norm_training (C3), (C4), batch_norm_inference (C3-C6), batch_norm_grad (C5)
    for name in names:
        vector = check.array(name)
        if vector.rank != 1 or sizes_differ(vector.dimensions[0], size):
            check.fail(
                f"{name} must be a vector of one number for each feature, "
                f"{operand.element_type}[{operand.dimension_text(feature_index)}]",
                got=vector,
                dimension=feature_index,
            )
    dynamic = operand.dynamic_dimensions[feature_index]
    return operand.with_layout(None), intern_array(operand.element_type, (size,), (dynamic,))


def _averaged(op: Any) -> int:
    """Return the number of operand elements over which the mean of a feature is computed."""
    sizes = op.operands[0].shape.dimensions
    return math.prod(size for d, size in enumerate(sizes) if d != op.attributes["feature_index"])


def _equal_sizes(op: SizedOp) -> Pairs:
    like = op.operands[0]
    yield from pairs([*op.operands[1:], *op.results], like)
    for array in (*op.operands, *op.results):
        if len(array) == 1:
            yield array[0], like[op.attributes["feature_index"]]


def _define(opcode: str, operands: str) -> Schema:
    return define(
        opcode,
        operands,
        (Attribute("epsilon", FLOAT32), Attribute("feature_index", INTEGER)),
        element_types=dict.fromkeys(operands.split(), FLOATING),
        tolerance=Tolerance(2, terms=_averaged),
        equal_sizes=_equal_sizes,
    )


def _batch_norm_training_shape(
    operand: Shape, scale: Shape, offset: Shape, feature_index: int
) -> TupleShape:
    check = Check("batch_norm_training", operand=operand, scale=scale, offset=offset)
    result, feature = _feature(check, feature_index, "scale", "offset")
    return TupleShape([result, feature, feature])


BATCH_NORM_TRAINING: Final = _define("batch_norm_training", "operand scale offset")


@op(BATCH_NORM_TRAINING, _batch_norm_training_shape)
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


def _batch_norm_inference_shape(
    operand: Shape, scale: Shape, offset: Shape, mean: Shape, variance: Shape, feature_index: int
) -> ArrayShape:
    features = {"scale": scale, "offset": offset, "mean": mean, "variance": variance}
    check = Check("batch_norm_inference", operand=operand, **features)
    return _feature(check, feature_index, *features)[0]


BATCH_NORM_INFERENCE: Final = _define("batch_norm_inference", "operand scale offset mean variance")


@op(BATCH_NORM_INFERENCE, _batch_norm_inference_shape)
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


def _batch_norm_grad_shape(
    operand: Shape,
    scale: Shape,
    mean: Shape,
    variance: Shape,
    grad_output: Shape,
    feature_index: int,
) -> TupleShape:
    features = {"scale": scale, "mean": mean, "variance": variance}
    check = Check("batch_norm_grad", operand=operand, **features, grad_output=grad_output)
    result, feature = _feature(check, feature_index, *features)
    gradient = check.array("grad_output")
    # StableHLO batch_norm_grad (C3)
    if result.rank != gradient.rank or any(
        map(sizes_differ, result.dimensions, gradient.dimensions)
    ):
        check.fail(f"grad_output must have the sizes of operand, {operand}", got=gradient)
    return TupleShape([result, feature, feature])


BATCH_NORM_GRAD: Final = _define("batch_norm_grad", "operand scale mean variance grad_output")


@op(BATCH_NORM_GRAD, _batch_norm_grad_shape)
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
