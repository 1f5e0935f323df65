"""Padding of windows: the enumeration Padding, and its conversion to pairs of numbers."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, Literal

from builder.attributes.fields import unpackable
from builder.check import integer, refusal

_MOST: Final = 2**63
_MOST_PAIRS: Final = 1000
"""The limit on the pairs that are read from an argument, which may be an infinite iterator."""


class Padding(enum.Enum):
    """Padding that is computed from the sizes of the array and of the window.

    SAME pads so that strides of 1 keep the sizes: the number of windows along a dimension is its
    size divided by the stride, rounded up. Half of the padding is added on each side, the odd
    element on the high side. VALID adds no padding, and windows that reach beyond the array are
    omitted.

    Example:
        >>> import builder as xb
        >>> xb.Padding.SAME
        Padding.SAME
    """

    SAME = "SAME"
    VALID = "VALID"

    # The keys of cached windows contain it, and the hash of enum.Enum is slow.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Padding.{self.name}"


PaddingLike = Padding | Literal["SAME", "VALID"] | Sequence[Sequence[int]]
"""A Padding or its name, or for each dimension a pair (low, high)."""


def padding_argument(
    op: str, value: Any, name: str = "padding"
) -> Padding | tuple[tuple[int, int], ...]:
    """Check and return the argument `padding` of an op: a Padding, or pairs (low, high).

    Raises:
        ShapeInferenceError: `value` is neither a Padding, nor its name, nor a sequence of pairs.
    """
    if isinstance(value, Padding):
        return value
    if type(value) is list or type(value) is tuple:
        # The usual argument, checked without calls.
        for pair in value:
            if type(pair) is not tuple or len(pair) != 2:
                break
            low, high = pair
            if type(low) is not int or type(high) is not int or abs(low) + abs(high) >= _MOST:
                break
        else:
            return tuple(value)
    if isinstance(value, str):
        if value.upper() in Padding.__members__:
            return Padding[value.upper()]
    elif isinstance(value, Iterable):
        try:
            entries = islice(unpackable(value), _MOST_PAIRS)
            pairs = [(low, high) for low, high in map(unpackable, entries)]
        except (TypeError, ValueError):
            pass  # an entry is not a pair
        else:
            each = f"each number of {name}"
            return tuple((integer(op, each, low), integer(op, each, high)) for low, high in pairs)
    if hasattr(value, "opcode"):
        fix = "write xb.Padding.SAME, xb.Padding.VALID or pairs of numbers"
        raise refusal(op, f"{name} must be compile-time integers", value, fix)
    raise refusal(
        op,
        f"{name} must be Padding.SAME, Padding.VALID, or a pair (low, high) for each dimension of "
        "the window",
        value,
        f"write for instance {name}=[(1, 1), (0, 2)]",
    )


def dilated(size: int, dilation: int) -> int:
    """Return a size after adding ``dilation - 1`` holes between adjacent elements; 0 remains 0."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def explicit_padding(
    padding: Padding,
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> tuple[tuple[int, int], ...]:
    """Return the padding as a pair (low, high) for each dimension.

    Args:
        padding: SAME or VALID.
        sizes: the sizes of the array that the window moves over.
        window: the sizes of the window.
        strides: the distances between windows; positive.
        base_dilations, window_dilations: the distances between elements of the array and of the
            window; positive, 1 by default.

    Example:
        >>> import builder as xb
        >>> from builder.attributes.window import explicit_padding
        >>> explicit_padding(xb.Padding.SAME, [5, 6], [3, 4], [2, 1])
        ((1, 1), (1, 2))
    """
    ones = (1,) * len(sizes)
    if padding is Padding.VALID:
        return ((0, 0),) * len(sizes)
    pairs = []
    for size, width, stride, base, spread in zip(
        sizes, window, strides, base_dilations or ones, window_dilations or ones, strict=True
    ):
        length = dilated(size, base)
        windows = -(-length // stride)
        padded = max((windows - 1) * stride + dilated(width, spread) - length, 0)
        pairs.append((padded // 2, padded - padded // 2))
    return tuple(pairs)
