"""Shapes of what is done in windows that move over an array.

Operation Semantics: ReduceWindow, SelectAndScatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from builder.attributes.window import Padding, dilated, explicit_padding
from builder.check import Check
from builder.errors import SignatureError
from builder.shape_inference.public import public
from builder.shape_inference.reduction.reductions import reducer
from builder.types import primitive_type as pt
from builder.types.shape import (
    MAX_ELEMENTS,
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    TupleShape,
    intern_array,
)

__all__ = ["Window", "reduce_window", "select_and_scatter", "window_over"]


class Window(NamedTuple):
    """A window and how it moves over an array: one entry for each dimension in every field.

    Attributes:
        window_dimensions: the sizes of the window.
        window_strides: how far it moves each time.
        padding: pairs (low, high): what is put before and behind the array, or taken away.
        base_dilations: how far elements of the array lie apart.
        window_dilations: how far the elements of the window lie apart.
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
    """The window over operand `of`: lists that are empty filled up, SAME and VALID worked out.

    Raises:
        ShapeInferenceError: a list has another length; a number is not positive.
    """
    base = check.array(of)
    check.one_for_each_dimension(window_dimensions, of=of, name="window_dimensions")
    ones = (1,) * base.rank
    lists = {
        "window_dimensions": tuple(window_dimensions),
        "window_strides": tuple(window_strides) or ones,
        "base_dilations": tuple(base_dilations) or ones,
        "window_dilations": tuple(window_dilations) or ones,
    }
    for name, values in lists.items():
        check.one_for_each_dimension(values, of=of, name=name)
        for dimension, value in enumerate(values):
            if value <= 0:
                check.fail(
                    f"{name} must be positive, got {value} in {list(values)}", dimension=dimension
                )
    if isinstance(padding, Padding):
        if padding is Padding.SAME and not base.is_bounded:
            check.fail(
                "Padding.SAME is worked out from sizes, and one is unbounded",
                fix="give the padding as pairs (low, high), or the dimension a bound",
            )
        pairs = explicit_padding(
            padding,
            base.dimensions,
            lists["window_dimensions"],
            lists["window_strides"],
            lists["base_dilations"],
            lists["window_dilations"],
        )
    else:
        pairs = tuple(padding) or ((0, 0),) * base.rank
        check.one_for_each_dimension(pairs, of=of, name="padding")
    return Window(padding=pairs, **lists)


def _windowed(check: Check, of: str, window: Window) -> ArrayShape:
    """Shape of an array with one element for each place of the window over operand `of`."""
    base = check.array(of)
    sizes = []
    for dimension, size in enumerate(base.dimensions):
        if size == UNBOUNDED:
            sizes.append(UNBOUNDED)
            continue
        low, high = window.padding[dimension]
        length = low + dilated(size, window.base_dilations[dimension]) + high
        width = dilated(window.window_dimensions[dimension], window.window_dilations[dimension])
        if length < 0:
            check.fail(
                f"padding must not take away more elements than there are, got ({low}, {high}) "
                f"for dimension {dimension} of {of}, which has "
                f"{dilated(size, window.base_dilations[dimension])}",
                dimension=dimension,
            )
        if max(length, width) > MAX_ELEMENTS:
            check.fail(
                f"the window and what it moves over must not be longer than 2**63 - 1, got "
                f"{max(length, width)} along dimension {dimension} of {of}",
                dimension=dimension,
            )
        stride = window.window_strides[dimension]
        sizes.append(0 if width > length else (length - width) // stride + 1)
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
    """Shape of a reduction of windows: the number of places of the window along each dimension.

    Lists that are empty stand for ones, the padding for none. For several operands, a tuple.

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
    check = Check.numbered(op, "operand", operands)
    check.shapes.update({f"init value {i}": s for i, s in enumerate(init_values)})
    if not operands:
        check.fail("at least one operand is needed, got none")
    if len(operands) != len(init_values):
        check.fail(
            f"there must be one init value for each operand, got {len(operands)} operands and "
            f"{len(init_values)} init values"
        )
    arrays = [check.array(f"operand {i}") for i in range(len(operands))]
    same_sizes(check, arrays)
    window = window_over(
        check,
        "operand 0",
        window_dimensions,
        window_strides,
        padding,
        base_dilations,
        window_dilations,
    )
    reducer(check, computation, arrays, init_values)
    # Which sizes are dynamic is asked of each operand, otherwise than in a reduction.
    results = [_windowed(check, f"operand {i}", window) for i in range(len(arrays))]
    return results[0] if computation.result.is_array else TupleShape(results)


def same_sizes(check: Check, arrays: Sequence[ArrayShape]) -> None:
    """Raises unless the operands have the same sizes; one that is unbounded fits any."""
    first = arrays[0]
    for index, array in enumerate(arrays):
        if array.rank != first.rank or any(
            m != n and UNBOUNDED not in (m, n)
            for m, n in zip(array.dimensions, first.dimensions, strict=True)
        ):
            check.fail(f"operands must have the same sizes; operand {index} differs from operand 0")


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
    """Shape of a select-and-scatter: the operand's.

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
    array, values = check.array("operand"), check.array("source")
    scalar = intern_array(array.element_type, ())
    if values.element_type is not array.element_type:
        check.fail(
            f"source must be of the operand's element type, {array.element_type}, "
            f"got {values.element_type}",
            fix="convert it with xb.convert_element_type",
        )
    if init_value is not scalar:
        check.fail(
            f"init_value must be a scalar of the operand's element type, {scalar}, got {init_value}"
        )
    if select != ProgramShape([scalar, scalar], intern_array(pt.pred, ())):
        check.fail(
            f"select must be of signature ({scalar}, {scalar}) -> pred[] (whether the first is "
            f"selected), got {select}",
            error=SignatureError,
            fix="give one pred back, for instance that of xb.ge",
        )
    if scatter != ProgramShape([scalar, scalar], scalar):
        check.fail(
            f"scatter must be of signature ({scalar}, {scalar}) -> {scalar} (accumulated, value), "
            f"got {scatter}",
            error=SignatureError,
            fix=f"give {scalar} back, the new accumulated value",
        )
    window = window_over(check, "operand", window_dimensions, window_strides, padding)
    windows = _windowed(check, "operand", window)
    # Sizes are compared and not which of them are bounds, as in XLA.
    if values.rank != windows.rank or any(
        m != n and UNBOUNDED not in (m, n)
        for m, n in zip(values.dimensions, windows.dimensions, strict=True)
    ):
        check.fail(
            f"source must have one element for each place of the window, {windows}, got {values}"
        )
    return intern_array(array.element_type, array.dimensions, array.dynamic_dimensions)
