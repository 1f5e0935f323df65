"""Read the windows of reduce_window, select_and_scatter and convolution, and count windows."""

from __future__ import annotations

from typing import NamedTuple

from jaxlib.mlir import ir

from builder.attributes.window import dilated
from builder.types import primitive_type as pt
from lowering.legalize.op_builder import OpBuilder, integers_of
from lowering.legalize.registry import Value


def padding_of(operation: ir.Operation) -> list[int]:
    """Return the padding of an operation: [low 0, high 0, low 1, ...]; empty without padding."""
    if "padding" not in operation.attributes:
        return []
    pairs = ir.DenseIntElementsAttr(operation.attributes["padding"])
    return [pairs[number] for number in range(len(pairs))]


class WindowDimension(NamedTuple):
    """The size, stride, dilations and padding of a window along one dimension."""

    size: int
    stride: int
    base_dilation: int
    window_dilation: int
    low: int
    high: int


def window_dimension(operation: ir.Operation, dimension: int, size: int) -> WindowDimension:
    """Return the window along a dimension of a reduce_window or convolution.

    Args:
        operation: the reduce_window or convolution.
        dimension: the index of the dimension in the attributes of the window.
        size: the size of the window along the dimension.
    """

    def entry(*names: str) -> int:
        lists = (integers_of(operation, name) for name in names)
        return next((numbers[dimension] for numbers in lists if numbers), 1)

    padding = padding_of(operation)
    low, high = padding[2 * dimension : 2 * dimension + 2] or (0, 0)
    return WindowDimension(
        size,
        entry("window_strides"),
        entry("base_dilations", "lhs_dilation"),
        entry("window_dilations", "rhs_dilation"),
        low,
        high,
    )


def window_count(b: OpBuilder, size: Value, window: WindowDimension) -> Value:
    """Return the number of windows along a dimension of bounded size, a scalar of s32.

    Args:
        b: creates the operations.
        size: the size of the dimension at run time, a scalar of s32.
        window: the window along the dimension.
    """

    def number(value: int) -> Value:
        return b.number(value, pt.s64)

    # The sizes are computed in 64 bits, because dilated and padded sizes may not fit in 32 bits.
    length = b.elementwise("subtract", b.converted(size, pt.s64), number(1))
    length = b.elementwise("multiply", length, number(window.base_dilation))
    length = b.elementwise("maximum", b.elementwise("add", length, number(1)), number(0))
    added = window.low + window.high - dilated(window.size, window.window_dilation)
    # The division rounds down, since the dividend is not negative.
    space = b.elementwise("add", length, number(added + window.stride))
    space = b.elementwise("maximum", space, number(0))
    count = b.elementwise("divide", space, number(window.stride))
    return b.converted(count, pt.s32)
