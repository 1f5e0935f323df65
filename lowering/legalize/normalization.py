"""Rewrites of batch normalization, which XLA computes inaccurately."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.legalize.op_builder import OpBuilder, array_of, integer_of
from lowering.legalize.registry import Value, rewrite


@rewrite("stablehlo.batch_norm_training", platforms=("cpu",))
def batch_norm_training(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Normalize the differences from the mean, at least in f32.

    XLA computes the variance as the mean of the squares minus the square of the mean. If the mean
    is large, the two are nearly equal, and rounding errors dominate. The variance may be negative,
    and the result NaN.

    Shown by: batch_norm_training_of_a_large_mean.
    """
    values = _at_least_f32(b, operation)
    operand = array_of(values[0])
    if not operand.is_bounded:
        return None
    shapes = _wide_results(operation, values)
    feature = integer_of(operation, "feature_index")
    sizes = b.sizes(values[0])
    _, mean, _ = b.like(operation, values, shapes).results
    mean = b.at_bounds(mean)
    broadcast = b.spread(mean, operand.at_bounds(), [feature])
    values[0] = b.elementwise("subtract", values[0], b.sized(broadcast, sizes))
    result, error, variance = b.like(operation, values, shapes).results
    mean = b.elementwise("add", mean, b.at_bounds(error))
    return _with_types(b, operation, [result, mean, variance], sizes[feature])


@rewrite("stablehlo.batch_norm_inference", "stablehlo.batch_norm_grad", platforms=("cpu",))
def batch_norm_inference_and_grad(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Normalize at least in f32, and set the bounded sizes of the resulting vectors.

    XLA computes in the element type. Sums overflow, and f16 can't represent the number of elements
    of some arrays. XLA drops the bounded sizes of some of the resulting vectors.

    Shown by: batch_norm_inference_f16.
    """
    values = _at_least_f32(b, operation)
    size = b.sizes(values[0])[integer_of(operation, "feature_index")]
    if values == list(operation.operands) and size is None:
        return None
    made = b.like(operation, values, _wide_results(operation, values))
    return _with_types(b, operation, list(made.results), size)


def _at_least_f32(b: OpBuilder, operation: ir.Operation) -> list[Value]:
    narrow = array_of(operation.operands[0]).element_type.bits < 32
    operands = list(operation.operands)
    return [b.converted(value, pt.f32) for value in operands] if narrow else operands


def _wide_results(operation: ir.Operation, values: Sequence[Value]) -> list[ArrayShape]:
    element_type = array_of(values[0]).element_type
    return [array_of(result).with_element_type(element_type) for result in operation.results]


def _with_types(
    b: OpBuilder, operation: ir.Operation, values: list[Value], feature_size: Value | None
) -> list[Value]:
    """Convert values to the element type of the results, and set the size of all but the first."""
    result, *vectors = values
    vectors = [b.sized(vector, [feature_size]) for vector in vectors]
    element_type = array_of(operation.results[0]).element_type
    return [b.converted(value, element_type) for value in (result, *vectors)]
