"""Windows that move over an array: what convolutions and reductions over windows share."""

from __future__ import annotations

from collections.abc import Sequence

from builder.attributes.window import Padding, dilated, explicit_padding
from builder.check import Check
from builder.types.shape import MAX_ELEMENTS, UNBOUNDED

__all__ = ["one_for_each", "positive", "window_padding", "windows_along"]


def one_for_each(
    check: Check, values: Sequence[int], count: int, *, name: str, default: int = 1
) -> tuple[int, ...]:
    """Argument `name`, with one entry for each of `count` dimensions of a window.

    As in XLA, an empty argument stands for the default everywhere.
    """
    if not values:
        return (default,) * count
    if len(values) != count:
        check.fail(
            f"{name} must have one entry for each dimension of the window: {count}, "
            f"got {len(values)}: {list(values)}"
        )
    return tuple(values)


def positive(check: Check, values: Sequence[int], *, name: str) -> None:
    """Argument `name` holds steps, of which each is 1 or more."""
    for index, value in enumerate(values):
        if value < 1:
            check.fail(
                f"each of {name} must be 1 or more, got {value} in {list(values)}", dimension=index
            )


def window_padding(
    check: Check,
    padding: Padding | Sequence[tuple[int, int]],
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> tuple[tuple[int, int], ...]:
    """The argument padding as pairs (low, high), one for each dimension of the window.

    As in XLA, no pairs at all stand for no padding.
    """
    if isinstance(padding, Padding):
        if padding is Padding.SAME and UNBOUNDED in (*sizes, *window):
            check.fail(
                "Padding.SAME can't be worked out where a size is unbounded",
                fix="give pairs (low, high), or give the dimension a bound: f32[<=n]",
            )
        return explicit_padding(padding, sizes, window, strides, base_dilations, window_dilations)
    if not padding:
        return ((0, 0),) * len(sizes)
    if len(padding) != len(sizes):
        check.fail(
            f"padding must have a pair (low, high) for each dimension of the window: "
            f"{len(sizes)}, got {len(padding)}: {list(padding)}"
        )
    return tuple(padding)


def windows_along(
    check: Check,
    dimension: int,
    size: int,
    window: int,
    stride: int,
    padding: tuple[int, int],
    base_dilation: int = 1,
    window_dilation: int = 1,
) -> int:
    """How many windows there are along a dimension; UNBOUNDED if its size is.

    Args:
        check: the op, for messages.
        dimension: which of the window's dimensions it is, for messages.
        size: of the array that the window moves over.
        window: the size of the window.
        stride: how far it moves each time; positive.
        padding: how many elements are added on each side; taken away where negative.
        base_dilation, window_dilation: how far the elements of each lie apart; positive.
    """
    if window < 1:
        what = "an unbounded size" if window == UNBOUNDED else str(window)
        check.fail(
            f"the window must have one element or more along each dimension, got {what} along "
            f"dimension {dimension} of the window",
            dimension=dimension,
        )
    if size == UNBOUNDED:
        return UNBOUNDED
    low, high = padding
    length = dilated(size, base_dilation)
    width = dilated(window, window_dilation)
    padded = low + length + high
    for what, value in (("the array", length), ("the window", width), ("the array", padded)):
        if value > MAX_ELEMENTS:
            check.fail(
                f"{what} must have less than 2**63 elements along each dimension once it is "
                f"dilated and padded, got {value} along dimension {dimension} of the window",
                dimension=dimension,
            )
    if padded < 0:
        check.fail(
            f"padding must not take away more elements than there are, got ({low}, {high}) for "
            f"{length} along dimension {dimension} of the window",
            dimension=dimension,
        )
    return 0 if padded < width else (padded - width) // stride + 1
