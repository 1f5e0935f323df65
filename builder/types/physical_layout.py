"""What an array looks like in memory: how layouts turn its dimensions into physical ones.

All here is arithmetic on sizes; nothing looks at elements. The steps of a layout are

1. padding: each dimension is padded to its padded size;
2. order: the dimensions are put in order, the most major first;
3. tiling, for each tile: dimensions are combined, each is padded to whole tiles and split in two,
   which tile and where in it, and the places in the tile are moved to the end;
4. the tail: the buffer is padded to a whole number of alignments.

Tiled layout: Tiling as pad-reshape-transpose; Combining dimensions using tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from builder.types.layout import COMBINE, Layout, Tile

__all__ = ["Physical", "Tiling", "physical"]


@dataclass(frozen=True, slots=True)
class Tiling:
    """What one tile does to an array.

    Attributes:
        before: the sizes of the array that is tiled, the most major dimension first.
        groups: the sizes of `before`, those together that are combined into one dimension; a
            dimension left alone is a group of one. The last ``len(tile)`` groups are tiled.
        tile: the sizes of the tile, without those of combined dimensions.
    """

    before: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    tile: tuple[int, ...]

    @property
    def combined(self) -> tuple[int, ...]:
        """The sizes after dimensions were combined: one for each group."""
        return tuple(map(prod, self.groups))

    @property
    def untiled(self) -> int:
        """The number of leading groups that the tile says nothing of."""
        return len(self.groups) - len(self.tile)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many tiles it takes to cover each tiled dimension."""
        tiled = self.combined[self.untiled :]
        return tuple(-(-size // t) for size, t in zip(tiled, self.tile, strict=True))

    @property
    def padded(self) -> tuple[int, ...]:
        """The sizes of `combined`, padded to whole tiles."""
        whole = (count * size for count, size in zip(self.counts, self.tile, strict=True))
        return (*self.combined[: self.untiled], *whole)

    @property
    def after(self) -> tuple[int, ...]:
        """The sizes of the tiled array: those left alone, the tiles' counts, the tile's sizes."""
        return (*self.combined[: self.untiled], *self.counts, *self.tile)


@dataclass(frozen=True, slots=True)
class Physical:
    """An array as it lies in memory.

    Attributes:
        sizes: of each dimension the padded size, by dimension number.
        ordered: the same sizes, the most major dimension first.
        tilings: what each tile does, the first to `ordered`, each to what the one before gave.
        dimensions: the sizes that are left in the end, the most major first; the buffer is an
            ordinary row-major array of them, but for `tail`.
        tail: elements at the buffer's end that only align it.
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
    """How an array of these sizes lies in memory with this layout, which must fit its rank."""
    sizes = dimensions if layout.padded_dimensions is None else layout.padded_dimensions
    ordered = tuple(sizes[d] for d in reversed(layout.minor_to_major))
    tilings = []
    after = ordered
    for tile in layout.tiles:
        # A scalar is tiled as an array of one element.
        tiling = _tiling(after or (1,), tile)
        tilings.append(tiling)
        after = tiling.after
    alignment = layout.tail_padding_alignment_in_elements
    tail = -prod(after) % alignment
    return Physical(sizes, ordered, tuple(tilings), after, tail)


def _tiling(before: tuple[int, ...], tile: Tile) -> Tiling:
    untiled = len(before) - len(tile.dimensions)
    groups: list[tuple[int, ...]] = [(size,) for size in before[:untiled]]
    open_group: tuple[int, ...] = ()
    for size, wanted in zip(before[untiled:], tile.dimensions, strict=True):
        open_group += (size,)
        if wanted != COMBINE:
            groups.append(open_group)
            open_group = ()
    kept = tuple(t for t in tile.dimensions if t != COMBINE)
    return Tiling(before, tuple(groups), kept)
