"""Batch normalization that a platform gets wrong."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.shape import ArrayShape
from lowering.legalize.registry import Rewriter, Value, rewrite
from lowering.legalize.words import Words, array_of, attributes_of


@rewrite("stablehlo.batch_norm_training", "cpu")
def batch_norm_training(rewriter: Rewriter, operation: ir.Operation) -> None:
    """Of the differences from the mean.

    XLA takes the mean of the squares, less the square of the mean. If the mean is large, those are
    nearly equal, and what is left are errors of rounding; it may be negative, and its root NaN.
    """
    words = Words(rewriter, operation)
    values = _at_least_f32(words, operation)
    operand = array_of(values[0])
    if not operand.is_bounded:
        return
    attributes = attributes_of(operation)
    shapes = _wide_results(operation, values)
    place = ir.IntegerAttr(operation.attributes["feature_index"]).value
    sizes = words.sizes(values[0])
    _, first, _ = words.several("batch_norm_training", shapes, values, attributes)
    first = words.at_bounds(first)
    whole = words.spread(first, operand.at_bounds(), [place])
    values[0] = words("subtract", operand, [values[0], words.sized(whole, sizes)])
    result, rest, variance = words.several("batch_norm_training", shapes, values, attributes)
    mean = words("add", array_of(first), [first, words.at_bounds(rest)])
    _replace(rewriter, operation, words, [result, mean, variance], sizes[place])


@rewrite("stablehlo.batch_norm_inference", "cpu")
@rewrite("stablehlo.batch_norm_grad", "cpu")
def batch_norm(rewriter: Rewriter, operation: ir.Operation) -> None:
    """In f32 at least: XLA adds up in the type itself; f16 can't even hold the number of elements
    of some arrays."""
    words = Words(rewriter, operation)
    values = _at_least_f32(words, operation)
    place = ir.IntegerAttr(operation.attributes["feature_index"]).value
    size = words.sizes(values[0])[place]
    name = operation.name.removeprefix("stablehlo.")
    if values == list(operation.operands) and size is None:
        return
    results = words.several(
        name, _wide_results(operation, values), values, attributes_of(operation)
    )
    _replace(rewriter, operation, words, results, size)


def _at_least_f32(words: Words, operation: ir.Operation) -> list[Value]:
    narrow = array_of(operation.operands[0]).element_type.bits < 32
    operands = list(operation.operands)
    return [words.converted(value, pt.f32) for value in operands] if narrow else operands


def _wide_results(operation: ir.Operation, values: Sequence[Value]) -> list[ArrayShape]:
    element_type = array_of(values[0]).element_type
    return [array_of(result).with_element_type(element_type) for result in operation.results]


def _replace(
    rewriter: Rewriter,
    operation: ir.Operation,
    words: Words,
    values: list[Value],
    feature_size: Value | None,
) -> None:
    """Puts these values in the place of the results, in their type.

    XLA forgets of some of the vectors that their size is bounded: it is set again.
    """
    result, *vectors = values
    vectors = [words.sized(vector, [feature_size]) for vector in vectors]
    element_type = array_of(operation.results[0]).element_type
    rewriter.replace(operation, [words.converted(v, element_type) for v in (result, *vectors)])
