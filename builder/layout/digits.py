"""Index arithmetic for Python ints and int64 arrays.

Dimensions of size 1, which are common in tiled layouts, cost no arithmetic.

Tiled layout: Linear index formulas for tiling given a shape and a tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from builder.types.physical_layout import Tiling

# An int or an int64 array; the typing module has no name for their common operations.
Number = Any


def divided(number: Number, size: int) -> tuple[Number, Number]:
    """Return the quotient and the remainder, with one division, because NumPy divides slowly."""
    if size == 1:
        return number, 0
    quotient = number // size
    return quotient, number - quotient * size


def ravel(index: Iterable[Number], sizes: Sequence[int]) -> Number:
    """Return the linear index of `index` in a row-major array of sizes `sizes`."""
    place: Number = 0
    for number, size in zip(index, sizes, strict=True):
        place = _sum(place if size == 1 else place * size, number)
    return place


def _sum(first: Number, second: Number) -> Number:
    if isinstance(first, int) and first == 0:
        return second
    return first if isinstance(second, int) and second == 0 else first + second


def unravel(place: Number, sizes: Sequence[int]) -> list[Number]:
    """Convert the linear index `place` to an index for each dimension of a row-major array.

    Only the first index can be out of bounds. The index of a dimension of size 1 is the int 0, even
    if `place` is an array.
    """
    index: list[Number] = []
    for size in reversed(sizes[1:]):
        place, last = divided(place, size)
        index.append(last)
    if sizes:
        index.append(place)
    return index[::-1]


def combined(tiling: Tiling, index: Iterable[Number]) -> list[Number]:
    """Convert an index of `tiling.before` to an index of `tiling.combined`."""
    numbers = iter(index)
    return [ravel([next(numbers) for _ in group], group) for group in tiling.groups]


def tiled(tiling: Tiling, numbers: Sequence[Number]) -> tuple[list[Number], list[Number]]:
    """Split an index from `combined` into the index of a tile and the index in the tile.

    The index of the tile starts with the indices of the untiled dimensions.
    """
    untiled = numbers[: tiling.untiled]
    pairs = list(map(divided, numbers[tiling.untiled :], tiling.tile))
    return [*untiled, *(quotient for quotient, _ in pairs)], [rest for _, rest in pairs]
