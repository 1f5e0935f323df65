"""Physical layouts: the sizes that result from padding, ordering and tiling an array.

This module computes with sizes, not with elements. The steps of a layout are

1. padding: each dimension is padded to its padded size;
2. order: the dimensions are transposed, the most major first;
3. tiling, for each tile: dimensions are combined, padded to a multiple of the tile, and split in
   two, the tile and the index in the tile; the indices are moved to the end;
4. the tail: the buffer is padded to a multiple of the alignment.

Tiled layout: Tiling as pad-reshape-transpose; Combining dimensions using tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from builder.types.layout import COMBINE, Layout, Tile


@dataclass(frozen=True, slots=True)
class Tiling:
    """The effect of one tile on the sizes of an array.

    Attributes:
        before: the sizes of the array that is tiled, the most major dimension first.
        groups: the sizes of `before`, grouped by the dimensions that are combined into one. The
            last ``len(tile)`` groups are tiled.
        tile: the sizes of the tile, without combined dimensions.
    """

    before: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    tile: tuple[int, ...]

    @property
    def combined(self) -> tuple[int, ...]:
        """The sizes after dimensions are combined, one for each group."""
        return tuple(map(prod, self.groups))

    @property
    def untiled(self) -> int:
        """The number of leading groups that are not tiled."""
        return len(self.groups) - len(self.tile)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of tiles along each tiled dimension."""
        tiled = self.combined[self.untiled :]
        return tuple(-(-size // t) for size, t in zip(tiled, self.tile, strict=True))

    @property
    def padded(self) -> tuple[int, ...]:
        """The sizes of `combined`, padded to multiples of the tile."""
        tiled = (count * size for count, size in zip(self.counts, self.tile, strict=True))
        return (*self.combined[: self.untiled], *tiled)

    @property
    def after(self) -> tuple[int, ...]:
        """The sizes of the tiled array: untiled dimensions, tile counts, tile sizes."""
        return (*self.combined[: self.untiled], *self.counts, *self.tile)


@dataclass(frozen=True, slots=True)
class Physical:
    """The physical form of an array.

    Attributes:
        sizes: the padded size of each dimension, by dimension number.
        ordered: the same sizes, the most major dimension first.
        tilings: the tilings in order; the first applies to `ordered`, each other to the previous
            result.
        dimensions: the final sizes, the most major first; the buffer is a row-major array of these
            sizes, followed by `tail`.
        tail: the number of elements that align the end of the buffer.
    """

    sizes: tuple[int, ...]
    ordered: tuple[int, ...]
    tilings: tuple[Tiling, ...]
    dimensions: tuple[int, ...]
    tail: int

    @property
    def size(self) -> int:
        """The number of elements of the buffer, padding included."""
        return prod(self.dimensions) + self.tail


@lru_cache(maxsize=4096)
def physical(dimensions: tuple[int, ...], layout: Layout) -> Physical:
    """Return the physical form of an array of these sizes with a layout of the same rank."""
    sizes = dimensions if layout.padded_dimensions is None else layout.padded_dimensions
    ordered = tuple(sizes[d] for d in reversed(layout.minor_to_major))
    tilings = []
    after = ordered
    for tile in layout.tiles:
        tiling = _tiling(after or (1,), tile)  # a scalar is tiled as an array of one element
        tilings.append(tiling)
        after = tiling.after
    tail = -prod(after) % layout.tail_padding_alignment_in_elements
    return Physical(sizes, ordered, tuple(tilings), after, tail)


def _tiling(before: tuple[int, ...], tile: Tile) -> Tiling:
    untiled = len(before) - len(tile.dimensions)
    groups: list[tuple[int, ...]] = [(size,) for size in before[:untiled]]
    group: tuple[int, ...] = ()
    for size, tile_size in zip(before[untiled:], tile.dimensions, strict=True):
        group += (size,)
        if tile_size != COMBINE:
            groups.append(group)
            group = ()
    return Tiling(before, tuple(groups), tuple(t for t in tile.dimensions if t != COMBINE))
