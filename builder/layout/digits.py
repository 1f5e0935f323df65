"""Indices of arrays and their places, with Python's ints and with arrays of int64 alike.

A size of 1 costs nothing here: dimensions of 1 are common in tiled layouts.

Tiled layout: Linear index formulas for tiling given a shape and a tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from builder.types.physical_layout import Tiling

__all__ = ["Number", "combined", "divided", "ravel", "tiled", "unravel"]

# Type checkers know no name for what ints and arrays can both do.
Number = Any


def divided(number: Number, size: int) -> tuple[Number, Number]:
    """How many whole `size` are in a number, and what is left.

    Of ten million, what is left is found in 0.07 s so, and in 0.12 s by NumPy's `%`.
    """
    if size == 1:
        return number, 0
    whole = number // size
    return whole, number - whole * size


def ravel(index: Iterable[Number], sizes: Sequence[int]) -> Number:
    """The place in a row-major array of these sizes."""
    place: Number = 0
    for number, size in zip(index, sizes, strict=True):
        place = _sum(place if size == 1 else place * size, number)
    return place


def _sum(one: Number, other: Number) -> Number:
    if isinstance(one, int) and one == 0:
        return other
    return one if isinstance(other, int) and other == 0 else one + other


def unravel(place: Number, sizes: Sequence[int]) -> list[Number]:
    """The index in a row-major array of these sizes; the first takes what is too much.

    The index of a dimension of 1 is the int 0, for arrays too.
    """
    index: list[Number] = []
    for size in reversed(sizes[1:]):
        place, last = divided(place, size)
        index.append(last)
    if sizes:
        index.append(place)
    return index[::-1]


def combined(tiling: Tiling, index: Iterable[Number]) -> list[Number]:
    """The index after dimensions were combined."""
    each = iter(index)
    return [ravel([next(each) for _ in group], group) for group in tiling.groups]


def tiled(tiling: Tiling, numbers: Sequence[Number]) -> tuple[list[Number], list[Number]]:
    """Which tile a `combined` index is in, after what is not tiled; and where in the tile."""
    pairs = [
        divided(number, size)
        for number, size in zip(numbers[tiling.untiled :], tiling.tile, strict=True)
    ]
    which = [*numbers[: tiling.untiled], *(whole for whole, _ in pairs)]
    return which, [rest for _, rest in pairs]
