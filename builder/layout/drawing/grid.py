"""What a picture of an array shows: which cells, where each lies in the buffer, in which tile.

The cells are those of the array and, around them, those that padding adds: an array of 3x5 under
tiles of 2x2 is a grid of 4x6. Rows and columns are the last two dimensions, and there is a panel
for each index of the others. A large array is summarised: what changes (ends, borders of tiles, the
beginning of padding) is shown, and what lies between is left out.

Tiled layout: figures 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from builder.layout.digits import Number, combined, ravel, tiled, unravel
from builder.layout.indexing import layout_of, physical_of
from builder.types.physical_layout import Physical, Tiling
from builder.types.shape import ArrayShape

__all__ = ["COLOURS", "SIDES", "Axis", "Grid", "Panel", "grid_of", "narrowed"]

COLOURS: Final = 6
"""How many colours tiles have. Neighbours are given different ones."""

SIDES: Final = {"top": (-1, 0), "right": (0, 1), "bottom": (1, 0), "left": (0, -1)}
"""The sides of a cell: how many rows and columns away the neighbour there is."""

MOST_PANELS: Final = 64

_Numbers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Axis:
    """The rows, or the columns, of a grid.

    Attributes:
        dimension: the dimension's number; None for the one row of an array of rank 1 or 0.
        size: the dimension's size.
        extent: the size with all padding.
        drawn: the indices that are shown, ascending; what is missing is left out.
        unit: the size of tiles along it, or 0.
    """

    dimension: int | None
    size: int
    extent: int
    drawn: tuple[int, ...]
    unit: int

    @property
    def is_complete(self) -> bool:
        return len(self.drawn) == self.extent

    def blocks(self, most: int) -> list[range]:
        """The positions in `drawn`, in pieces of at most `most`, if they can of whole tiles."""
        length, most = len(self.drawn), max(most, 1)
        unit = self.unit or 8
        parts = max(-(-length // most), 1)
        step = -(-length // parts)  # of one length, nearly, where there are no whole tiles
        if parts > 1 and unit <= most:
            step = most // unit * unit
        step = max(step, 1)
        return [range(start, min(start + step, length)) for start in range(0, length, step)]

    def is_gap(self, position: int) -> bool:
        """Whether something is left out before this position of `drawn`."""
        before = self.drawn[position - 1] if position else -1
        return self.drawn[position] != before + 1


@dataclass(frozen=True, slots=True)
class Panel:
    """The rows and columns at one index of all other dimensions.

    Attributes:
        index: that index.
        places: where each cell lies in the buffer, -1 for cells that are not in it.
        is_padding: whether a cell is in the buffer and no element of the array.
        colours: a number below `COLOURS` for each cell.
        borders: for each level of tiles, the sides of cells where the tile ends.
    """

    index: tuple[int, ...]
    places: _Numbers
    is_padding: _Flags
    colours: _Numbers
    borders: tuple[dict[str, _Flags], ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """All that is drawn.

    Attributes:
        shape: what it is a picture of.
        rows, columns: the last two dimensions.
        panels: those that are drawn, the last after a gap if there are more.
        panel_count: how many there are.
        size: the number of elements in the buffer.
        cell_count: how many of them have a cell in the grid, drawn or left out.
    """

    shape: ArrayShape
    rows: Axis
    columns: Axis
    panels: tuple[Panel, ...]
    panel_count: int
    size: int
    cell_count: int

    @property
    def is_complete(self) -> bool:
        """Nothing is left out."""
        axes = self.rows.is_complete and self.columns.is_complete
        return not self.cell_count or (axes and len(self.panels) == self.panel_count)


def grid_of(shape: ArrayShape, max_cells: int) -> Grid:
    """The grid of a shape without unbounded dimensions, of at most so many cells."""
    steps = physical_of(shape)
    extents, units = _extents(shape, steps), _units(shape, steps)
    if not prod(extents):
        nothing = Axis(None, 0, 0, (), 0)
        return Grid(shape, nothing, nothing, (), 0, steps.size, 0)
    panel_count = prod(extents[:-2])
    panels, most = _fitting(panel_count, extents[-2:], max_cells)
    axes = [
        Axis(d, size, extents[d], _drawn(size, extents[d], units[d], most), units[d])
        for d, size in list(enumerate(shape.dimensions))[-2:]
    ]
    if not axes:  # a scalar, with its padding in a row beside it
        axes = [Axis(None, 1, extents[0], _drawn(1, extents[0], units[0], most), units[0])]
    rows, columns = axes if len(axes) == 2 else (Axis(None, 1, 1, (0,), 0), axes[0])
    indices = [tuple(unravel(n, extents[:-2])) for n in _first_and_last(panel_count, panels)]
    found = [_panel(shape, steps, index, rows, columns) for index in indices]
    cell_count = prod(steps.tilings[0].padded if steps.tilings else steps.sizes)
    colours = _colours(found, COLOURS if steps.tilings else 2)
    return Grid(
        shape,
        rows,
        columns,
        tuple(
            Panel(index, raw.places, raw.is_padding, colour, raw.borders)
            for index, raw, colour in zip(indices, found, colours, strict=True)
        ),
        panel_count,
        steps.size,
        cell_count,
    )


def narrowed(grid: Grid, most: int) -> Grid:
    """The grid with at most so many columns, those that tell most."""
    old = grid.columns
    drawn = _drawn(old.size, old.extent, old.unit, most)
    # What tells more comes first whatever `most` is, so that these are among those there.
    kept = [old.drawn.index(column) for column in drawn]

    def part(panel: Panel) -> Panel:
        borders = ({side: at[:, kept] for side, at in each.items()} for each in panel.borders)
        return Panel(
            panel.index,
            panel.places[:, kept],
            panel.is_padding[:, kept],
            panel.colours[:, kept],
            tuple(borders),
        )

    columns = Axis(old.dimension, old.size, old.extent, drawn, old.unit)
    return Grid(
        grid.shape,
        grid.rows,
        columns,
        tuple(map(part, grid.panels)),
        grid.panel_count,
        grid.size,
        grid.cell_count,
    )


def _fitting(panel_count: int, extents: Sequence[int], max_cells: int) -> tuple[int, int]:
    """How many panels are drawn, and how many rows and columns of each at most."""
    whole = max(extents)
    for panels, most in ((MOST_PANELS, whole), (4, whole), *_SUMMARIES):
        is_short = panels < panel_count and panels == MOST_PANELS
        each = prod(min(extent, most) for extent in extents)
        if not is_short and min(panels, panel_count) * each <= max_cells:
            return min(panels, panel_count), most
    return 1, 1


_SUMMARIES: Final = ((4, 16), (4, 12), (4, 8), (2, 8), (1, 8), (1, 6), (1, 4), (1, 3), (1, 2))
"""How many panels, and how many rows and columns, are tried for a picture that is summarised."""


def _extents(shape: ArrayShape, steps: Physical) -> list[int]:
    """The sizes of the grid: each dimension with the padding that belongs to it.

    What the first tile pads goes to the most major one of dimensions that are combined. The padding
    of further tiles lies inside tiles and between them, in no row or column.
    """
    extents = list(steps.sizes) or [1]
    if steps.tilings:
        tiling = steps.tilings[0]
        for dimensions, wanted in zip(_groups(shape, tiling), tiling.padded, strict=True):
            first, *others = dimensions
            rest = prod(steps.sizes[d] for d in others)
            if rest:
                extents[first] = -(-wanted // rest)
    return extents


def _groups(shape: ArrayShape, tiling: Tiling) -> list[list[int]]:
    """The numbers of the dimensions that the first tile combines, the most major first."""
    major_to_minor = iter(reversed(layout_of(shape).minor_to_major or (0,)))
    return [list(islice(major_to_minor, len(group))) for group in tiling.groups]


def _units(shape: ArrayShape, steps: Physical) -> list[int]:
    """The size of the first tile along each dimension; 0 where there is none or it is combined."""
    units = [0] * max(shape.rank, 1)
    if steps.tilings:
        tiling = steps.tilings[0]
        sizes = [0] * tiling.untiled + list(tiling.tile)
        for (first, *others), size in zip(_groups(shape, tiling), sizes, strict=True):
            units[first] = 0 if others else size
    return units


def _drawn(size: int, extent: int, unit: int, most: int) -> tuple[int, ...]:
    """The indices of a dimension that are drawn: all, or the `most` that tell most."""
    if extent <= most:
        return tuple(range(extent))
    # The most telling first: ends, where padding begins, the first border between tiles.
    telling = [0, extent - 1, size - 1, size, unit - 1, unit, 1, extent - 2, 2, size - 2, size + 1]
    chosen = dict.fromkeys(i for i in telling if 0 <= i < extent)
    wanted = list(islice(chosen, most))
    others = (i for i in range(extent) if i not in chosen)
    return tuple(sorted([*wanted, *islice(others, most - len(wanted))]))


def _first_and_last(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    return [*range(most - 1), count - 1] if most > 1 else [0]


@dataclass(frozen=True, slots=True)
class _Raw:
    """A panel before it is coloured, with the number of each cell's tile at each level."""

    places: _Numbers
    is_padding: _Flags
    tiles: tuple[_Numbers, ...]
    borders: tuple[dict[str, _Flags], ...]


def _panel(
    shape: ArrayShape,
    steps: Physical,
    leading: tuple[int, ...],
    rows: Axis,
    columns: Axis,
) -> _Raw:
    down = np.array(rows.drawn, np.int64).reshape(-1, 1)
    across = np.array(columns.drawn, np.int64).reshape(1, -1)

    def at(row_step: int, column_step: int) -> tuple[_Numbers, list[_Numbers]]:
        row, column = down + row_step, across + column_step
        index = [np.full((1, 1), i, np.int64) for i in leading]
        index += [row, column] if shape.rank > 1 else [column]
        inside = (row >= 0) & (row < rows.extent) & (column >= 0) & (column < columns.extent)
        return _places(shape, steps, index, inside)

    places, tiles = at(0, 0)
    borders: list[dict[str, _Flags]] = [{} for _ in tiles]
    for side, (row_step, column_step) in SIDES.items():
        for level, theirs in enumerate(at(row_step, column_step)[1]):
            borders[level][side] = (tiles[level] != theirs) & (places >= 0)
    is_element = (down < rows.size) & (across < columns.size)
    if any(i >= size for i, size in zip(leading, shape.dimensions, strict=False)):
        is_element = np.zeros_like(is_element)
    return _Raw(places, (places >= 0) & ~is_element, tuple(tiles), tuple(borders))


def _places(
    shape: ArrayShape, steps: Physical, index: list[_Numbers], inside: _Flags
) -> tuple[_Numbers, list[_Numbers]]:
    """Where cells lie in the buffer, and the numbers of their tiles at each level; -1 for nowhere.

    Unlike `linear_index` this takes indices of padding as well.
    """
    remaining: list[Number] = [index[d] for d in reversed(layout_of(shape).minor_to_major)] or index
    tiles = []
    for level, tiling in enumerate(steps.tilings):
        numbers = combined(tiling, remaining)
        if level == 0:
            for number, padded in zip(numbers, tiling.padded, strict=True):
                # Negative is what is beyond 63 bits, and so beyond the buffer.
                inside = inside & (number >= 0) & (number < padded)
        which, where = tiled(tiling, numbers)
        tiles.append(ravel(which, tiling.after[: len(which)]))
        remaining = [*which, *where]
    if not steps.tilings:
        tiles.append(ravel(remaining[:-1], steps.dimensions[:-1]))
    place = ravel(remaining, steps.dimensions or (1,))
    return np.where(inside, place, -1), [np.where(inside, number, -1) for number in tiles]


def _colours(panels: Sequence[_Raw], cycle: int) -> list[_Numbers]:
    """A colour for each cell of each panel: one for a tile, and no neighbour's if there are enough.

    In memory order, `cycle` colours follow one after the other where neighbours allow it.
    """
    neighbours: dict[int, set[int]] = {}
    for panel in panels:
        tile = np.where(panel.is_padding, -1, panel.tiles[0])
        for one, other in ((tile[1:], tile[:-1]), (tile[:, 1:], tile[:, :-1])):
            pairs = np.stack([one.ravel(), other.ravel()], axis=1)
            differ = (pairs[:, 0] != pairs[:, 1]) & (pairs >= 0).all(axis=1)
            for a, b in np.unique(pairs[differ], axis=0).tolist():
                neighbours.setdefault(a, set()).add(b)
                neighbours.setdefault(b, set()).add(a)
    numbers = np.unique(np.concatenate([panel.tiles[0].ravel() for panel in panels]))
    colours: dict[int, int] = {}
    for number in numbers.tolist():
        # Nor that of the tile before, which is beside it in memory.
        taken = {colours.get(n) for n in (number - 1, *neighbours.get(number, ()))}
        wanted = [(number % cycle + more) % COLOURS for more in range(COLOURS)]
        colours[number] = next((c for c in wanted if c not in taken), wanted[0])
    by_number = np.array([colours[number] for number in numbers.tolist()], np.int64)
    return [by_number[np.searchsorted(numbers, panel.tiles[0])] for panel in panels]
