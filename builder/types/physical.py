"""The physical form of an array with a layout: its padded sizes, its tiles and its buffer.

The steps of a layout, here for sizes and in `builder.layout` for elements, are

1. padding: each dimension is padded to its padded size;
2. order: the dimensions are transposed, the most major first;
3. tiling, for each tile: dimensions are combined, padded to a multiple of the tile, and split in
   two, the tile and the index in the tile; the indices are moved to the end;
4. the tail: the buffer is padded to a multiple of the alignment.

`layout_fault` decides whether a layout fits a shape. `builder.types.shape` imports this module for
the first layout that is not only an order.

Shapes and Layout: Layout; Tiled layout: Tiling as pad-reshape-transpose; Combining dimensions using
tiles.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from builder.errors import brief
from builder.types.layout import COMBINE, Layout, Tile
from builder.types.shape import MAX_ELEMENTS, ArrayShape, without_layout


class Tiling(NamedTuple):
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


class Physical(NamedTuple):
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


class LayoutFault(NamedTuple):
    """The reason why a layout does not fit a shape.

    Attributes:
        message: the broken rule, and the values that break it.
        part: the name of the `Layout` argument that breaks the rule.
        item: the index of the wrong entry, if that argument is a sequence.
        dimension: the dimension number that the message is about, or None.
    """

    message: str
    part: str
    item: int = 0
    dimension: int | None = None


def layout_fault(layout: Layout, shape: ArrayShape) -> LayoutFault | None:
    """Return why `layout` does not fit `shape`, or None if it does."""
    rank = len(layout.minor_to_major)
    if rank != shape.rank:
        return LayoutFault(
            f"{brief(layout)} orders {rank} dimension{'' if rank == 1 else 's'}, "
            f"{shape} has {shape.rank}",
            "minor_to_major",
        )
    bits, element = layout.element_size_in_bits, shape.element_type
    if bits and bits < element.bits:
        return LayoutFault(
            f"element_size_in_bits can't be smaller than the {element.bits} bits of an element "
            f"of {element}, got {bits}",
            "element_size_in_bits",
        )
    if bits and (8 % bits if bits < 8 else bits % 8):
        return LayoutFault(
            f"element_size_in_bits must be 1, 2, 4 or a multiple of 8, got {bits}",
            "element_size_in_bits",
        )
    for dimension, padded in enumerate(layout.padded_dimensions or ()):
        if padded < shape.dimensions[dimension]:
            return LayoutFault(
                f"padded_dimensions can't be smaller than the dimensions, got {padded} "
                f"for dimension {dimension} of {without_layout(shape)}",
                "padded_dimensions",
                dimension,
                dimension,
            )
    return _buffer_fault(layout, shape) if shape.is_bounded else None


def _buffer_fault(layout: Layout, shape: ArrayShape) -> LayoutFault | None:
    """Return the fault of the first part of the layout that makes the buffer too large, or None."""
    form = physical(shape.dimensions, layout)
    if form.size <= MAX_ELEMENTS:
        return None
    counts = [
        ("padded_dimensions", 0, prod(form.ordered)),
        *(("tiles", i, prod(tiling.after)) for i, tiling in enumerate(form.tilings)),
        ("tail_padding_alignment_in_elements", 0, form.size),
    ]
    part, index = next((part, i) for part, i, count in counts if count > MAX_ELEMENTS)
    return LayoutFault(
        f"the buffer of {without_layout(shape)} with {brief(layout)} has {brief(form.size)} "
        "elements, padding included, more than 2**63 - 1",
        part,
        index,
    )
