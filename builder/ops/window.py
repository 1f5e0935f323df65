"""Windows that move over an array: their rules and their HLO text.

Convolutions and reductions over windows share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from builder.attributes.padding import Padding, dilated, explicit_padding
from builder.check import Check
from builder.types.shape import MAX_ELEMENTS, UNBOUNDED


def window_list(
    check: Check, values: Sequence[int] | None, count: int, *, of: str, name: str
) -> tuple[int, ...]:
    """Return argument `name`: a positive number for each of `count` dimensions.

    If the argument is None or empty, all numbers are 1.
    """
    # XLA shape_inference.cc: InferWindowFromDimensions
    if not values:
        return (1,) * count
    check.one_for_each(values, count, of=of, name=name, neutral=(1,) * count)
    check.positive(values, name=name)
    return tuple(values)


def window_padding(
    check: Check,
    padding: Padding | Sequence[tuple[int, int]],
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    base_dilations: Sequence[int],
    window_dilations: Sequence[int],
    *,
    of: str,
) -> tuple[tuple[int, int], ...]:
    """Return `padding` as a pair (low, high) for each dimension; an empty list means no padding."""
    # XLA shape_inference.cc: InferWindowFromDimensions
    if isinstance(padding, Padding):
        counted = [
            size
            for size, stride, dilation in zip(sizes, strides, base_dilations, strict=True)
            if not stride == dilation == 1
        ]
        if padding is Padding.SAME and UNBOUNDED in (*counted, *window):
            rule = "Padding.SAME can't be computed for an unbounded size and a stride above 1"
            fix = "pass padding as pairs (low, high), or give the dimension a bound: f32[<=n]"
            check.fail(rule, fix=fix)
        return explicit_padding(padding, sizes, window, strides, base_dilations, window_dilations)
    if not padding:
        return ((0, 0),) * len(sizes)
    # StableHLO reduce_window (C12), convolution (C4)
    check.one_for_each(padding, len(sizes), of=of, name="padding", neutral=((0, 0),) * len(sizes))
    return tuple(padding)


def windows_along(
    check: Check,
    of: str,
    dimension: int,
    size: int,
    window: int,
    stride: int,
    padding: tuple[int, int],
    base_dilation: int,
    window_dilation: int,
) -> int:
    """Return the number of windows along a dimension, or UNBOUNDED if `size` is UNBOUNDED.

    Args:
        check: the op, for messages.
        of, dimension: the name of the operand and the number of its dimension, for messages.
        size: the size of the array that the window moves over.
        window: the size of the window; positive.
        stride: the distance between windows; positive.
        padding: the number of elements added on each side; a negative number removes elements.
        base_dilation: the distance between the elements of the array; positive.
        window_dilation: the distance between the elements of the window; positive.
    """
    if size == UNBOUNDED:
        return UNBOUNDED
    low, high = padding
    length = dilated(size, base_dilation)
    width = dilated(window, window_dilation)
    padded = low + length + high
    # StableHLO reduce_window (C15), convolution (C25): num_windows
    if max(length, width, padded) > MAX_ELEMENTS:
        check.fail(
            "array and window must have fewer than 2**63 elements along each dimension once "
            "dilated and padded",
            got=f"{max(length, width, padded)} along dimension {dimension} of {of}",
            dimension=dimension,
        )
    if padded < 0:
        check.fail(
            "padding must not remove more elements than the dimension has",
            got=f"({low}, {high}) for {length} elements along dimension {dimension} of {of}",
            dimension=dimension,
        )
    return 0 if padded < width else (padded - width) // stride + 1


_DEFAULTS: Final = {"stride": 1, "pad": "0_0", "lhs_dilate": 1, "rhs_dilate": 1, "rhs_reversal": 0}


def window_text(
    size: Sequence[int], padding: Iterable[tuple[int, int]], lists: Mapping[str, Iterable[Any]]
) -> str:
    """Return the HLO attribute of a window, defaults omitted; "" for a window without dimensions.

    Args:
        size: the size of each dimension.
        padding: the low and the high padding of each dimension.
        lists: the other lists by their HLO names: "stride", "lhs_dilate" and so on.

    Example:
        >>> window_text([2, 3], [(0, 1), (0, 0)], {"stride": [1, 1]})
        ', window={size=2x3 pad=0_1x0_0}'
    """
    if not size:
        return ""
    stride = {"stride": lists.get("stride", ())}
    parts = {"size": size, **stride, "pad": [f"{low}_{high}" for low, high in padding], **lists}
    text = " ".join(
        f"{name}={'x'.join(map(str, values))}"
        for name, values in parts.items()
        if any(value != _DEFAULTS.get(name) for value in values)
    )
    return f", window={{{text}}}"
