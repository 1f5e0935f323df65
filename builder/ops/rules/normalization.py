"""Infer the result shapes of batch normalization ops.

Operation Semantics: BatchNormGrad, BatchNormInference, BatchNormTraining.
"""

from __future__ import annotations

from builder.check import CONVERT, Check, sizes_differ
from builder.ops.rules.public import public
from builder.schema import SCHEMAS
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
                f"{operand.element_type}[{operand.dimension_text(feature_index)}], got {vector}",
                dimension=feature_index,
            )
    dynamic = operand.dynamic_dimensions[feature_index]
    return operand.with_layout(None), intern_array(operand.element_type, (size,), (dynamic,))


@public
def batch_norm_training(
    operand: Shape, scale: Shape, offset: Shape, feature_index: int
) -> TupleShape:
    """Return the shape of the tuple (normalized operand, means, variances).

    The means and variances are vectors with one number for each feature.

    Example:
        >>> import builder as xb
        >>> x, v = xb.f32[32, 8, 8, 3], xb.f32[3]
        >>> xb.shape_inference.normalization.batch_norm_training(x, v, v, 3)
        (f32[32,8,8,3], f32[3], f32[3])
    """
    check = Check("batch_norm_training", operand=operand, scale=scale, offset=offset)
    result, feature = _feature(check, feature_index, "scale", "offset")
    return TupleShape([result, feature, feature])


@public
def batch_norm_inference(
    operand: Shape, scale: Shape, offset: Shape, mean: Shape, variance: Shape, feature_index: int
) -> ArrayShape:
    """Return the shape of the normalized operand: the shape of the operand.

    Example:
        >>> import builder as xb
        >>> x, v = xb.f32[32, 8, 8, 3], xb.f32[3]
        >>> xb.shape_inference.normalization.batch_norm_inference(x, v, v, v, v, 3)
        f32[32,8,8,3]
    """
    features = {"scale": scale, "offset": offset, "mean": mean, "variance": variance}
    check = Check("batch_norm_inference", operand=operand, **features)
    return _feature(check, feature_index, *features)[0]


@public
def batch_norm_grad(
    operand: Shape,
    scale: Shape,
    mean: Shape,
    variance: Shape,
    grad_output: Shape,
    feature_index: int,
) -> TupleShape:
    """Return the shape of the tuple of gradients with respect to (operand, scale, offset).

    Example:
        >>> import builder as xb
        >>> x, v = xb.f32[32, 8, 8, 3], xb.f32[3]
        >>> xb.shape_inference.normalization.batch_norm_grad(x, v, v, v, x, 3)
        (f32[32,8,8,3], f32[3], f32[3])
    """
    features = {"scale": scale, "mean": mean, "variance": variance}
    check = Check("batch_norm_grad", operand=operand, **features, grad_output=grad_output)
    result, feature = _feature(check, feature_index, *features)
    gradient = check.array("grad_output")
    # StableHLO batch_norm_grad (C3)
    if result.rank != gradient.rank or any(
        map(sizes_differ, result.dimensions, gradient.dimensions)
    ):
        check.fail(f"grad_output must have the sizes of operand, {operand}, got {gradient}")
    return TupleShape([result, feature, feature])
