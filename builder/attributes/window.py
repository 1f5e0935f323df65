"""Windows that move over an array: Padding, and how its pairs are worked out."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from builder.attributes.fields import unpackable
from builder.errors import ShapeInferenceError, brief

__all__ = ["Padding", "PaddingLike", "dilated", "explicit_padding", "padding_argument"]

_MOST: Final = 2**63
_MOST_PAIRS: Final = 1000
"""More than any window has: an iterator without end is not read to the end."""


class Padding(enum.Enum):
    """Padding said by what it is for.

    SAME pads so that strides of 1 leave the sizes as they are: as many windows along a dimension
    as it has elements, divided by the stride and rounded up. What there is to pad is put on both
    sides, the odd one on the high side. VALID pads nothing, and windows that reach beyond the array
    are left out.

    Example:
        >>> import builder as xb
        >>> xb.Padding.SAME
        Padding.SAME
    """

    SAME = "SAME"
    VALID = "VALID"

    # Windows are looked up by it: an enumeration's own hash is ten times as slow.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Padding.{self.name}"


PaddingLike = Padding | str | Sequence[Sequence[int]]
"""A Padding or its name, or for each dimension a pair (low, high)."""


def padding_argument(
    op: str, value: Any, name: str = "padding"
) -> Padding | tuple[tuple[int, int], ...]:
    """The argument `padding` of an op: a Padding, or a pair (low, high) for each dimension.

    Raises:
        ShapeInferenceError: it is neither.
    """
    if isinstance(value, Padding):
        return value
    if type(value) is list or type(value) is tuple:
        # What is given nearly always, in half the time.
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
            given = islice(unpackable(value), _MOST_PAIRS)
            pairs = tuple([(low, high) for low, high in map(unpackable, given)])
        except (TypeError, ValueError):
            pass  # not iterable after all, or other than two numbers
        else:
            for low, high in pairs:
                if type(low) is not int or type(high) is not int or abs(low) + abs(high) >= _MOST:
                    return _whole_numbers(op, name, pairs)
            return pairs
    raise ShapeInferenceError(
        f"{op}: {name} must be Padding.SAME, Padding.VALID, or a pair (low, high) for each "
        f"dimension of the window, got {brief(value)}\n"
        f"fix: write for instance {name}=[(1, 1), (0, 2)]",
        op=op,
    )


def _whole_numbers(op: str, name: str, pairs: Iterable[Any]) -> tuple[tuple[int, int], ...]:
    from builder.check import integer  # inference builds on this module

    each = f"each number of {name}"
    return tuple((integer(op, each, low), integer(op, each, high)) for low, high in pairs)


def dilated(size: int, dilation: int) -> int:
    """A size with ``dilation - 1`` holes put between each two elements; 0 stays 0."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def explicit_padding(
    padding: Padding,
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> tuple[tuple[int, int], ...]:
    """The pairs (low, high) that `padding` stands for; all arguments have one entry a dimension.

    Args:
        padding: SAME or VALID.
        sizes: of the array that the window moves over.
        window: its sizes.
        strides: how far it moves each time; positive.
        base_dilations, window_dilations: how far elements of the array, or of the window, lie
            apart; positive, 1 when not given.

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
