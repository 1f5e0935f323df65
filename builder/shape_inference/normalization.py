"""Shapes of batch normalization.

Operation Semantics: BatchNormGrad, BatchNormInference, BatchNormTraining.
"""

from __future__ import annotations

from builder.check import Check
from builder.shape_inference.public import public
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, TupleShape, intern_array

__all__ = ["batch_norm_grad", "batch_norm_inference", "batch_norm_training"]


def _feature(check: Check, feature_index: int, *names: str) -> ArrayShape:
    """The shape of one number for each feature, which the named operands must have."""
    check.arrays()
    operand = check.array("operand")
    if not operand.element_type.is_floating:
        check.fail(
            f"operand must be of floating-point type, got {operand.element_type}",
            fix="convert it with xb.convert_element_type",
        )
    check.dimension(feature_index, of="operand", name="feature_index")
    check.same_element_type()
    size = operand.dimensions[feature_index]
    for name in names:
        vector = check.array(name)
        if vector.rank != 1 or (
            vector.dimensions[0] != size and UNBOUNDED not in (vector.dimensions[0], size)
        ):
            check.fail(
                f"{name} must be a vector of one number for each feature, "
                f"{operand.element_type}[{operand.dimension_text(feature_index)}], got {vector}",
                dimension=feature_index,
            )
    dynamic = operand.dynamic_dimensions[feature_index]
    return intern_array(operand.element_type, (size,), (dynamic,))


@public
def batch_norm_training(
    operand: Shape, scale: Shape, offset: Shape, feature_index: int
) -> TupleShape:
    """Shape of (the normalized operand, the mean of each feature, its variance).

    Example:
        >>> import builder as xb
        >>> x, v = xb.f32[32, 8, 8, 3], xb.f32[3]
        >>> xb.shape_inference.normalization.batch_norm_training(x, v, v, 3)
        (f32[32,8,8,3], f32[3], f32[3])
    """
    check = Check("batch_norm_training", operand=operand, scale=scale, offset=offset)
    feature = _feature(check, feature_index, "scale", "offset")
    return TupleShape([check.array("operand").with_layout(None), feature, feature])


@public
def batch_norm_inference(
    operand: Shape, scale: Shape, offset: Shape, mean: Shape, variance: Shape, feature_index: int
) -> ArrayShape:
    """Shape of the normalized operand: its own.

    Example:
        >>> import builder as xb
        >>> x, v = xb.f32[32, 8, 8, 3], xb.f32[3]
        >>> xb.shape_inference.normalization.batch_norm_inference(x, v, v, v, v, 3)
        f32[32,8,8,3]
    """
    check = Check(
        "batch_norm_inference",
        operand=operand,
        scale=scale,
        offset=offset,
        mean=mean,
        variance=variance,
    )
    _feature(check, feature_index, "scale", "offset", "mean", "variance")
    return check.array("operand").with_layout(None)


@public
def batch_norm_grad(
    operand: Shape,
    scale: Shape,
    mean: Shape,
    variance: Shape,
    grad_output: Shape,
    feature_index: int,
) -> TupleShape:
    """Shape of the gradients with respect to (operand, scale, offset).

    Example:
        >>> import builder as xb
        >>> x, v = xb.f32[32, 8, 8, 3], xb.f32[3]
        >>> xb.shape_inference.normalization.batch_norm_grad(x, v, v, v, x, 3)
        (f32[32,8,8,3], f32[3], f32[3])
    """
    check = Check(
        "batch_norm_grad",
        operand=operand,
        scale=scale,
        mean=mean,
        variance=variance,
        grad_output=grad_output,
    )
    feature = _feature(check, feature_index, "scale", "mean", "variance")
    array, gradient = check.array("operand"), check.array("grad_output")
    if array.rank != gradient.rank or any(
        m != n and UNBOUNDED not in (m, n)
        for m, n in zip(array.dimensions, gradient.dimensions, strict=True)
    ):
        check.fail(f"grad_output must have the sizes of operand, {array}, got {gradient}")
    return TupleShape([array.with_layout(None), feature, feature])
