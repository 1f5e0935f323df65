"""Batch normalization that XLA gets wrong."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.legalize.op_builder import OpBuilder, array_of, attributes_of
from lowering.legalize.registry import Value, rewrite


@rewrite("stablehlo.batch_norm_training", platforms=("cpu",))
def batch_norm_training(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Normalize the differences from the mean, in f32 at least.

    XLA computes the variance as the mean of the squares minus the square of the mean. If the mean
    is large, these are nearly equal, and rounding errors dominate. The variance may be negative,
    and the result NaN.

    Shown by: batch_norm_training_of_a_large_mean.
    """
    values = _at_least_f32(b, operation)
    operand = array_of(values[0])
    if not operand.is_bounded:
        return None
    attributes = attributes_of(operation)
    shapes = _wide_results(operation, values)
    place = ir.IntegerAttr(operation.attributes["feature_index"]).value
    sizes = b.sizes(values[0])
    _, first, _ = b.create("batch_norm_training", shapes, values, attributes).results
    first = b.at_bounds(first)
    whole = b.spread(first, operand.at_bounds(), [place])
    values[0] = b("subtract", operand, [values[0], b.sized(whole, sizes)])
    again = b.create("batch_norm_training", shapes, values, attributes)
    result, rest, variance = again.results
    mean = b("add", array_of(first), [first, b.at_bounds(rest)])
    return _with_types(b, operation, [result, mean, variance], sizes[place])


@rewrite("stablehlo.batch_norm_inference", "stablehlo.batch_norm_grad", platforms=("cpu",))
def batch_norm(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Normalize in f32 at least, and restore the bounded sizes of vectors.

    XLA computes in the element type, where sums overflow, and f16 cannot represent the number of
    elements of some arrays. It drops the bounded sizes of some of the resulting vectors.

    Shown by: batch_norm_inference_f16.
    """
    values = _at_least_f32(b, operation)
    place = ir.IntegerAttr(operation.attributes["feature_index"]).value
    size = b.sizes(values[0])[place]
    if values == list(operation.operands) and size is None:
        return None
    shapes = _wide_results(operation, values)
    made = b.create(operation.name, shapes, values, attributes_of(operation))
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
    """These values in the types of the results, with the size of the vectors set again."""
    result, *vectors = values
    vectors = [b.sized(vector, [feature_size]) for vector in vectors]
    element_type = array_of(operation.results[0]).element_type
    return [b.converted(value, element_type) for value in (result, *vectors)]
