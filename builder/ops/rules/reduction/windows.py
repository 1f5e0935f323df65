"""Infer the result shapes of operations on windows that move over an array.

Operation Semantics: ReduceWindow, SelectAndScatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from builder.attributes.window import Padding
from builder.check import Check, same_sizes
from builder.ops.rules.public import public
from builder.ops.rules.reduction.reductions import equal_sizes, reducer, reduction_operands
from builder.ops.rules.window import window_list, window_padding, windows_along
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, ProgramShape, Shape, TupleShape, intern_array


class Window(NamedTuple):
    """A window and its movement over an array: each field has one entry for each dimension.

    Attributes:
        window_dimensions: the sizes of the window.
        window_strides: the distances between consecutive windows.
        padding: pairs (low, high): the numbers of elements added before and after the array;
            negative numbers remove elements.
        base_dilations: the distances between adjacent elements of the array.
        window_dilations: the distances between adjacent elements of the window.
    """

    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    base_dilations: tuple[int, ...]
    window_dilations: tuple[int, ...]


def window_over(
    check: Check,
    of: str,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding | Sequence[tuple[int, int]],
    base_dilations: Sequence[int] = (),
    window_dilations: Sequence[int] = (),
) -> Window:
    """Return the window over operand `of`; empty lists, SAME and VALID are replaced by numbers.

    Raises:
        ShapeInferenceError: the length of a list is not the operand's rank, or a size, stride or
            dilation is not positive.
    """
    base = check.array(of)
    each = f"dimension of {of}"
    # StableHLO reduce_window (C4-C12), select_and_scatter (C4-C8)
    check.one_for_each(window_dimensions, base.rank, of=each, name="window_dimensions")
    sizes, strides, dilations, gaps = (
        window_list(check, values, base.rank, of=each, name=name)
        for name, values in (
            ("window_dimensions", window_dimensions),
            ("window_strides", window_strides),
            ("base_dilations", base_dilations),
            ("window_dilations", window_dilations),
        )
    )
    pairs = window_padding(
        check, padding, base.dimensions, sizes, strides, dilations, gaps, of=each
    )
    return Window(sizes, strides, pairs, dilations, gaps)


def _windowed(check: Check, of: str, window: Window) -> ArrayShape:
    """Return the shape of an array with one element for each window over operand `of`."""
    base = check.array(of)
    dimensions = enumerate(zip(base.dimensions, *window, strict=True))
    sizes = [windows_along(check, of, number, *fields) for number, fields in dimensions]
    return check.result(base.element_type, sizes, base.dynamic_dimensions)


@public
def reduce_window(
    operands: Sequence[Shape],
    init_values: Sequence[Shape],
    computation: ProgramShape,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] = (),
    padding: Padding | Sequence[tuple[int, int]] = (),
    base_dilations: Sequence[int] = (),
    window_dilations: Sequence[int] = (),
    *,
    op: str = "reduce_window",
) -> Shape:
    """Return the shape of a reduction over windows: the number of windows along each dimension.

    An empty list means 1 in each dimension; empty padding means no padding. The result for several
    operands is a tuple.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[()]
        >>> add = xb.ProgramShape([f32, f32], f32)
        >>> infer = xb.shape_inference.reduction.reduce_window
        >>> infer([xb.f32[4, 6]], [f32], add, [2, 3], [2, 3], [(0, 0), (0, 0)])
        f32[2,2]
        >>> infer([xb.f32[5]], [f32], add, [3], [2], xb.Padding.SAME)
        f32[3]
    """
    check, arrays = reduction_operands(op, operands, init_values)
    equal_sizes(check, arrays)
    lists = (window_dimensions, window_strides, padding, base_dilations, window_dilations)
    window = window_over(check, "operand 0", *lists)
    reducer(check, computation, arrays, init_values)
    # Like XLA, take dynamic sizes from each operand, unlike in a reduction.
    results = [_windowed(check, f"operand {i}", window) for i in range(len(arrays))]
    return results[0] if computation.result.is_array else TupleShape(results)


@public
def select_and_scatter(
    operand: Shape,
    select: ProgramShape,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding | Sequence[tuple[int, int]],
    source: Shape,
    init_value: Shape,
    scatter: ProgramShape,
    *,
    op: str = "select_and_scatter",
) -> ArrayShape:
    """Return the shape of a select-and-scatter: the operand's shape.

    Example:
        >>> import builder as xb
        >>> f32, pred = xb.f32[()], xb.pred[()]
        >>> ge = xb.ProgramShape([f32, f32], pred)
        >>> add = xb.ProgramShape([f32, f32], f32)
        >>> xb.shape_inference.reduction.select_and_scatter(
        ...     xb.f32[4, 5], ge, [2, 3], [2, 2], xb.Padding.VALID, xb.f32[2, 2], f32, add
        ... )
        f32[4,5]
    """
    check = Check(op, operand=operand, source=source, init_value=init_value)
    # StableHLO select_and_scatter (C1)
    array, values = check.array("operand"), check.array("source")
    element_type = check.same_element_type("operand", "source")
    # StableHLO select_and_scatter (C3)
    scalar = intern_array(element_type, ())
    if init_value is not scalar:
        check.fail(
            f"init_value must be a scalar of the operand's element type, {scalar}, got {init_value}"
        )
    # StableHLO select_and_scatter (C9), (C10)
    pred = intern_array(pt.pred, ())
    returns = "whether to keep the selected element, for instance the result of xb.ge"
    check.applied("select", select, [scalar] * 2, [pred], "selected, candidate", returns)
    check.applied("scatter", scatter, [scalar] * 2, [scalar])
    window = window_over(check, "operand", window_dimensions, window_strides, padding)
    windows = _windowed(check, "operand", window)
    # StableHLO select_and_scatter (C2). Like XLA, compare sizes and not which of them are bounds.
    if not same_sizes(values, windows):
        check.fail(
            f"source must have one element for each position of the window, {windows}, got {values}"
        )
    return intern_array(element_type, array.dimensions, array.dynamic_dimensions)
