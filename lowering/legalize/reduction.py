"""Windows that XLA gets wrong or aborts on, or that a platform has no code for."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import intern_array
from lowering.legalize.op_builder import Attributes, OpBuilder, array_of
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite


def _numbers(operation: ir.Operation, name: str) -> list[int]:
    """A list attribute of the window; empty if the operation does not have it."""
    if name not in operation.attributes:
        return []
    return list(ir.DenseI64ArrayAttr(operation.attributes[name]))


def _padding(operation: ir.Operation) -> list[int]:
    """The low and the high padding of each dimension, one after the other."""
    if "padding" not in operation.attributes:
        return []
    pairs = ir.DenseIntElementsAttr(operation.attributes["padding"])
    return [pairs[number] for number in range(len(pairs))]


def _is_cut(operation: ir.Operation) -> bool:
    """Whether windows have one element, and padding only removes elements."""
    alone = (
        *_numbers(operation, "window_dimensions"),
        *_numbers(operation, "window_strides"),
        *_numbers(operation, "base_dilations"),
    )
    padding = _padding(operation)
    return all(number == 1 for number in alone) and any(padding) and max(padding) <= 0


@rewrite("stablehlo.reduce_window", platforms=ALL_PLATFORMS)
def cut_window(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Remove elements by pad, where windows have one element and negative padding.

    XLA simplifies such windows to the reducer applied to the unpadded array, and aborts as the
    sizes are not those of the result.

    Shown by: reduce_window_cut.
    """
    if not _is_cut(operation):
        return None
    shapes = [array_of(operand) for operand in operation.operands]
    count = len(shapes) // 2
    if not all(shape.is_static for shape in shapes):
        return None
    padding = _padding(operation)
    low, high = padding[::2], padding[1::2]
    arrays, initial = list(operation.operands)[:count], list(operation.operands)[count:]
    cut = [b.padded(*pair, low, high) for pair in zip(arrays, initial, strict=True)]
    made = b.like(operation, [*cut, *initial])
    del made.attributes["padding"]
    return list(made.results)


@rewrite("stablehlo.select_and_scatter", platforms=ALL_PLATFORMS)
def select_and_scatter_of_scalars(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Apply the scatter computation to the initial value and the source.

    There is one window of one element, which is selected. XLA's compiler aborts on it.

    Shown by: select_and_scatter_of_scalars.
    """
    operand, source, initial = operation.operands
    if ir.RankedTensorType(operand.type).rank:
        return None
    return b.inline(operation, 1, [initial, source])


@rewrite("stablehlo.select_and_scatter", platforms=("cpu", "gpu"))
def first_selected(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Select together with the places of elements, and scatter to these places.

    A selection that takes the first of two equal elements takes the first of the window:
    StableHLO combines elements in their order. XLA combines those of padded windows along several
    dimensions in another order.

    Shown by: select_and_scatter_of_equal_elements.
    """
    operand, source, initial = operation.operands
    shape, windows = array_of(operand), array_of(source)
    padding = _padding(operation)
    is_along_several = sum(size > 1 for size in _numbers(operation, "window_dimensions")) > 1
    if not (is_along_several and any(padding) and shape.is_static and windows.is_static):
        return None
    count, times = shape.element_count, windows.element_count
    index = pt.s32 if count < 2**31 else pt.s64
    # In row-major order; -1 where there is no element.
    places = b.reshaped(b.counted(intern_array(index, (count,)), 0), shape.dimensions)
    made = b.create(
        "reduce_window",
        [source.type, windows.with_element_type(index)],
        [operand, places, initial, b.number(-1, index)],
        {name: operation.attributes[name] for name in _WINDOW if name in operation.attributes},
        regions=1,
    )
    kinds = [intern_array(shape.element_type, ()), intern_array(index, ())]
    inside, arguments = b.block_in(made.regions[0], kinds * 2)
    inside.end(_earliest(inside, operation, *arguments))
    # An index out of bounds drops the update.
    where = b.reshaped(made.results[1], (times, 1))
    flat = intern_array(shape.element_type, (count,))
    scattered = b.create(
        "scatter",
        [flat],
        [b.spread(initial, flat), where, b.reshaped(source, (times,))],
        {
            "scatter_dimension_numbers": "#stablehlo.scatter<inserted_window_dims = [0], "
            "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>",
            "indices_are_sorted": False,
            "unique_indices": False,
        },
        regions=1,
    )
    inside, pair = b.block_in(scattered.regions[0], kinds[:1] * 2)
    inside.end(inside.inline(operation, 1, pair))
    return [b.reshaped(scattered.results[0], shape.dimensions)]


_WINDOW: Final = ("window_dimensions", "window_strides", "padding")


def _earliest(
    b: OpBuilder, owner: ir.Operation, value: Value, at: Value, other: Value, other_at: Value
) -> list[Value]:
    """The selected one of two values and its place, whatever their order."""
    (forward,) = b.inline(owner, 0, [value, other])
    (backward,) = b.inline(owner, 0, [other, value])
    backward = b("not", backward.type, [backward])
    chosen = b.selected(b.compared("LT", at, other_at), forward, backward)
    nowhere = b.number(-1, array_of(at).element_type)
    is_present = b.compared("NE", at, nowhere)
    is_other_absent = b.compared("EQ", other_at, nowhere)
    is_first = b("or", chosen.type, [is_other_absent, b("and", chosen.type, [is_present, chosen])])
    return [b.selected(is_first, value, other), b.selected(is_first, at, other_at)]


@rewrite("stablehlo.select_and_scatter", platforms=("tpu",))
def deepened(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Add dimensions of size 1 until two of them have no window.

    A TPU tiles the last two dimensions of an array, and has no code for windows along them.
    """
    operand, source, initial = operation.operands
    rank = array_of(operand).rank
    sizes = _numbers(operation, "window_dimensions") or [1] * rank
    strides = _numbers(operation, "window_strides") or [1] * rank
    windows = zip(sizes, strides, strict=True)
    lacking = 2 - sum(size == stride == 1 for size, stride in windows)
    if lacking <= 0 or not (array_of(operand).is_static and array_of(source).is_static):
        return None
    ones = [1] * lacking
    padding = _padding(operation) or [0] * (2 * rank)
    pairs = [padding[at : at + 2] for at in range(0, len(padding), 2)] + [[0, 0]] * lacking
    attributes: Attributes = {
        "window_dimensions": [*sizes, *ones],
        "window_strides": [*strides, *ones],
        "padding": f"dense<{pairs}> : tensor<{len(pairs)}x2xi64>",
    }
    arrays = [b.reshaped(v, (*array_of(v).dimensions, *ones)) for v in (operand, source)]
    made = b.like(operation, [*arrays, initial], [arrays[0].type], attributes)
    return [b.reshaped(made.results[0], array_of(operand).dimensions)]
