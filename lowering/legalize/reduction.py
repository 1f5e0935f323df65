"""Windows that end the process in XLA's compiler, or that a platform has no code for."""

from __future__ import annotations

from jaxlib.mlir import ir

from builder.shape import ArrayShape, intern_array
from lowering.legalize.registry import Rewriter, rewrite
from lowering.legalize.words import Words, array_of, attributes_of
from lowering.types import mlir_type


def _numbers(operation: ir.Operation, name: str) -> list[int]:
    """A list of the window's, empty where the operation leaves it out."""
    if name not in operation.attributes:
        return []
    return list(ir.DenseI64ArrayAttr(operation.attributes[name]))


def _padding(operation: ir.Operation) -> list[int]:
    """Low and high of each dimension, one after the other."""
    if "padding" not in operation.attributes:
        return []
    pairs = ir.DenseIntElementsAttr(operation.attributes["padding"])
    return [pairs[number] for number in range(len(pairs))]


def _is_cut(operation: ir.Operation) -> bool:
    """Windows of one element, of an array that padding only takes elements away from.

    XLA simplifies them to the reducer applied to the array as it was, and then finds that the
    sizes are not those of the result.
    """
    alone = (
        *_numbers(operation, "window_dimensions"),
        *_numbers(operation, "window_strides"),
        *_numbers(operation, "base_dilations"),
    )
    padding = _padding(operation)
    return all(number == 1 for number in alone) and any(padding) and max(padding) <= 0


@rewrite("stablehlo.reduce_window", "cpu", "gpu", "tpu")
def cut_window(rewriter: Rewriter, operation: ir.Operation) -> None:
    """The array is cut first, and its windows have no padding."""
    shapes = [array_of(operand) for operand in operation.operands]
    count = len(shapes) // 2
    if not _is_cut(operation) or not all(shape.is_static for shape in shapes):
        return
    padding = _padding(operation)
    low, high = padding[::2], padding[1::2]
    new = operation.clone(ir.InsertionPoint(operation)).operation
    for number, shape in enumerate(shapes[:count]):
        sizes = [sum(one) for one in zip(shape.dimensions, low, high, strict=True)]
        cut = rewriter.create(
            "stablehlo.pad",
            [mlir_type(intern_array(shape.element_type, tuple(sizes)), operation.context)],
            [operation.operands[number], operation.operands[count + number]],
            {
                "edge_padding_low": ir.DenseI64ArrayAttr.get(low),
                "edge_padding_high": ir.DenseI64ArrayAttr.get(high),
                "interior_padding": ir.DenseI64ArrayAttr.get([0] * len(low)),
            },
            before=new,
        )
        new.operands[number] = cut.result
    del new.attributes["padding"]
    rewriter.replace(operation, list(new.results))


@rewrite("stablehlo.select_and_scatter", "tpu")
def deepened(rewriter: Rewriter, operation: ir.Operation) -> None:
    """With two dimensions at least that no window goes along: of size 1, put behind the others.

    A TPU holds the last two dimensions of an array in tiles, and has no code for windows in them.
    """
    operand, source, initial = operation.operands
    rank = array_of(operand).rank
    sizes = _numbers(operation, "window_dimensions") or [1] * rank
    strides = _numbers(operation, "window_strides") or [1] * rank
    windows = zip(sizes, strides, strict=True)
    lacking = 2 - sum(size == stride == 1 for size, stride in windows)
    if lacking <= 0 or not (array_of(operand).is_static and array_of(source).is_static):
        return
    ones = [1] * lacking
    words = Words(rewriter, operation)

    def deep(shape: ArrayShape) -> ArrayShape:
        return intern_array(shape.element_type, (*shape.dimensions, *ones))

    padding = _padding(operation) or [0] * (2 * rank)
    pairs = [padding[at : at + 2] for at in range(0, len(padding), 2)] + [[0, 0]] * lacking
    attributes = attributes_of(operation) | {
        "window_dimensions": ir.DenseI64ArrayAttr.get([*sizes, *ones]),
        "window_strides": ir.DenseI64ArrayAttr.get([*strides, *ones]),
        "padding": words.parsed(f"dense<{pairs}> : tensor<{len(pairs)}x2xi64>"),
    }
    arrays = [words("reshape", deep(array_of(v)), [v]) for v in (operand, source)]
    made = rewriter.create(
        operation.name,
        [arrays[0].type],
        [*arrays, initial],
        attributes,
        before=operation,
        regions=2,
    )
    for target, region in zip(made.regions, operation.regions, strict=True):
        region.blocks[0].append_to(target)
    rewriter.replace(operation, [words("reshape", array_of(operand), [made.result])])
