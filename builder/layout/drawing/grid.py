"""The cells of a picture with their linear indices, tiles and colours, and the picture's caption.

The cells are the elements of the array and the padding around them: an array of 3x5 with tiles of
2x2 is a grid of 4x6. Rows and columns are the last two dimensions, and there is a panel for each
index of the other dimensions. A large array is abbreviated to its ends, the first border between
tiles and the beginning of padding.

Tiled layout: figures 1 and 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from builder.layout.indexing import Number, combined, layout_of, physical_of, ravel, tiled, unravel
from builder.types.physical import Physical
from builder.types.shape import ArrayShape

COLOURS: Final = 6
"""The number of colours available for tiles."""

SIDES: Final = {"top": (-1, 0), "right": (0, 1), "bottom": (1, 0), "left": (0, -1)}
"""The sides of a cell, with the row and column offset of the neighbour."""

MAX_PANELS: Final = 64

_Numbers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Axis:
    """The rows or the columns of a grid.

    Attributes:
        dimension: the dimension number; None if the array has no such dimension (rank 0 or 1).
        size: the size of the dimension.
        extent: the size with padding.
        drawn: the indices that are drawn, ascending.
        unit: the size of first-level tiles along the dimension; 0 for an untiled dimension.
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
        """Split `drawn` into ranges of at most `most` positions, if possible between tiles."""
        length, most = len(self.drawn), max(most, 1)
        unit = self.unit or 8
        count = max(-(-length // most), 1)
        step = -(-length // count)  # blocks of nearly equal length
        if count > 1 and unit <= most:
            step = most // unit * unit
        step = max(step, 1)
        return [range(start, min(start + step, length)) for start in range(0, length, step)]

    def is_gap(self, position: int) -> bool:
        """Return whether indices are omitted directly before this position in `drawn`."""
        before = self.drawn[position - 1] if position else -1
        return self.drawn[position] != before + 1


@dataclass(frozen=True, slots=True)
class Panel:
    """The cells at one index of the dimensions before the last two.

    Attributes:
        index: the index in the dimensions before the last two.
        places: the linear index of each cell, -1 for cells that are not in the buffer.
        is_padding: whether a cell is in the buffer but not an element of the array.
        tiles: the number of the first-level tile of each cell.
        colours: the colour of each cell, a number below `COLOURS`.
        borders: for each level of tiles, a dict from each side in `SIDES` to a flag for each cell:
            whether a tile of this level ends at that side of the cell.
    """

    index: tuple[int, ...]
    places: _Numbers
    is_padding: _Flags
    tiles: _Numbers
    colours: _Numbers
    borders: tuple[dict[str, _Flags], ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """The contents of a picture.

    Attributes:
        shape: the shape of the array.
        rows, columns: the last two dimensions of the array.
        panels: the panels that are drawn; omitted panels precede the last one.
        panel_count: the number of panels, including omitted ones.
        size: the number of elements in the buffer.
        cell_count: the number of cells, including omitted ones.
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
        """Whether no cell is omitted."""
        axes = self.rows.is_complete and self.columns.is_complete
        return not self.cell_count or (axes and len(self.panels) == self.panel_count)

    def is_after_gap(self, panel: Panel) -> bool:
        """Return whether panels are omitted directly before `panel`."""
        return 1 < len(self.panels) < self.panel_count and panel is self.panels[-1]


def grid_of(shape: ArrayShape, max_cells: int) -> Grid:
    """Return the grid of a shape without unbounded dimensions, with at most `max_cells` cells."""
    form = physical_of(shape)
    extents, units = _extents_and_units(shape, form)
    if not prod(extents):
        empty = Axis(None, 0, 0, (), 0)
        return Grid(shape, empty, empty, (), 0, form.size, 0)
    panel_count = prod(extents[:-2])
    panel_limit, most = _limits(panel_count, extents[-2:], max_cells)

    def axis(dimension: int | None, size: int, extent: int, unit: int) -> Axis:
        return Axis(dimension, size, extent, _drawn(size, extent, unit, most), unit)

    axes = list(map(axis, range(shape.rank), shape.dimensions, extents, units))[-2:]
    if not axes:  # the padding of a scalar is drawn in a row
        axes = [axis(None, 1, extents[0], units[0])]
    rows, columns = axes if len(axes) == 2 else (Axis(None, 1, 1, (0,), 0), axes[0])
    numbers = list(range(panel_count)) if panel_count <= panel_limit else [0]
    if panel_limit > 1 and panel_count > panel_limit:
        numbers = [*range(panel_limit - 1), panel_count - 1]
    panels = [_panel(shape, form, unravel(n, extents[:-2]), rows, columns) for n in numbers]
    return Grid(
        shape,
        rows,
        columns,
        tuple(_coloured(panels, COLOURS if form.tilings else 2)),
        panel_count,
        form.size,
        prod(form.tilings[0].padded if form.tilings else form.sizes),
    )


def narrowed(grid: Grid, most: int) -> Grid:
    """Return the grid without some of its columns, so that at most `most` columns are left."""
    old = grid.columns
    drawn = _drawn(old.size, old.extent, old.unit, most)
    # A subset of the old ones, because the order of preference is independent of `most`.
    positions = [old.drawn.index(column) for column in drawn]

    def part(panel: Panel) -> Panel:
        return replace(
            panel,
            places=panel.places[:, positions],
            is_padding=panel.is_padding[:, positions],
            tiles=panel.tiles[:, positions],
            colours=panel.colours[:, positions],
            borders=tuple(
                {side: flags[:, positions] for side, flags in level.items()}
                for level in panel.borders
            ),
        )

    columns = replace(old, drawn=drawn)
    return replace(grid, columns=columns, panels=tuple(map(part, grid.panels)))


def _limits(panel_count: int, extents: Sequence[int], max_cells: int) -> tuple[int, int]:
    """Return the number of panels, and the maximum number of rows or columns of each panel."""
    all_cells = max(extents)
    choices = [(4, all_cells), *_ABBREVIATIONS]
    if panel_count <= MAX_PANELS:
        choices.insert(0, (panel_count, all_cells))
    for panels, most in choices:
        panels = min(panels, panel_count)
        if panels * prod(min(extent, most) for extent in extents) <= max_cells:
            return panels, most
    return 1, 1


_ABBREVIATIONS: Final = ((4, 16), (4, 12), (4, 8), (2, 8), (1, 8), (1, 6), (1, 4), (1, 3), (1, 2))
"""Pairs that `_limits` tries for an abbreviated picture, in order of preference.

Each pair is a number of panels, and the maximum number of rows or columns of a panel.
"""


def _extents_and_units(shape: ArrayShape, form: Physical) -> tuple[list[int], list[int]]:
    """Return the padded size of each dimension, and the size of a first-level tile along it.

    If a tile combines dimensions, their padding is added to the most major dimension of the
    combination, and their tile sizes are 0. The padding that the second and later levels of tiles
    add is not included, because it belongs to no row or column.
    """
    extents = list(form.sizes) or [1]
    units = [0] * len(extents)
    if form.tilings:
        tiling = form.tilings[0]
        tile = [0] * tiling.untiled + list(tiling.tile)
        major_to_minor = iter(reversed(layout_of(shape).minor_to_major or (0,)))
        for group, padded, size in zip(tiling.groups, tiling.padded, tile, strict=True):
            first, *others = islice(major_to_minor, len(group))
            units[first] = 0 if others else size
            minor_size = prod(form.sizes[d] for d in others)
            if minor_size:
                extents[first] = -(-padded // minor_size)
    return extents, units


def _drawn(size: int, extent: int, unit: int, most: int) -> tuple[int, ...]:
    """Return the indices of a dimension that are drawn.

    At most `most` indices are drawn. The ends of the dimension and the indices beside the borders
    of tiles have priority.
    """
    if extent <= most:
        return tuple(range(extent))
    # In order of preference: ends, the beginning of padding, the first border between tiles.
    ranked = [0, extent - 1, size - 1, size, unit - 1, unit, 1, extent - 2, 2, size - 2, size + 1]
    preferred = dict.fromkeys(i for i in ranked if 0 <= i < extent)
    others = (i for i in range(extent) if i not in preferred)
    return tuple(sorted(islice(chain(preferred, others), most)))


def _panel(
    shape: ArrayShape, form: Physical, leading: Sequence[int], rows: Axis, columns: Axis
) -> Panel:
    """Return a panel whose `colours` are not chosen yet."""
    down = np.array(rows.drawn, np.int64).reshape(-1, 1)
    across = np.array(columns.drawn, np.int64).reshape(1, -1)

    def at(row_offset: int, column_offset: int) -> tuple[_Numbers, list[_Numbers]]:
        row, column = down + row_offset, across + column_offset
        index = [np.full((1, 1), i, np.int64) for i in leading]
        index += [row, column] if shape.rank > 1 else [column]
        inside = (row >= 0) & (row < rows.extent) & (column >= 0) & (column < columns.extent)
        return _places(shape, form, index, inside)

    places, tiles = at(0, 0)
    borders: list[dict[str, _Flags]] = [{} for _ in tiles]
    for side, offsets in SIDES.items():
        for level, neighbours in enumerate(at(*offsets)[1]):
            borders[level][side] = (tiles[level] != neighbours) & (places >= 0)
    is_element = (down < rows.size) & (across < columns.size)
    if any(i >= size for i, size in zip(leading, shape.dimensions, strict=False)):
        is_element = np.zeros_like(is_element)
    is_padding = (places >= 0) & ~is_element
    return Panel(tuple(leading), places, is_padding, tiles[0], tiles[0], tuple(borders))


def _places(
    shape: ArrayShape, form: Physical, index: list[_Numbers], inside: _Flags
) -> tuple[_Numbers, list[_Numbers]]:
    """Return the linear index of each cell, and the number of its tile at each level of tiles.

    Both are -1 for a cell outside the buffer. Unlike `linear_index`, this accepts the indices of
    padding.
    """
    remaining: list[Number] = [index[d] for d in reversed(layout_of(shape).minor_to_major)] or index
    tiles = []
    for level, tiling in enumerate(form.tilings):
        numbers = combined(tiling, remaining)
        if level == 0:
            for number, padded in zip(numbers, tiling.padded, strict=True):
                # A number that overflowed 63 bits is negative, and outside the buffer.
                inside = inside & (number >= 0) & (number < padded)
        tile, in_tile = tiled(tiling, numbers)
        tiles.append(ravel(tile, tiling.after[: len(tile)]))
        remaining = [*tile, *in_tile]
    if not form.tilings:
        tiles.append(ravel(remaining[:-1], form.dimensions[:-1]))
    place = ravel(remaining, form.dimensions or (1,))
    return np.where(inside, place, -1), [np.where(inside, number, -1) for number in tiles]


def _coloured(panels: Sequence[Panel], cycle: int) -> Iterator[Panel]:
    """Yield the panels with a colour for each tile; adjacent tiles differ in colour if possible.

    Tiles take `cycle` colours in turn, in memory order. A tile takes the next colour if an adjacent
    tile has the colour that is due.
    """
    neighbours: defaultdict[int, set[int]] = defaultdict(set)
    for panel in panels:
        tile = np.where(panel.is_padding, -1, panel.tiles)
        for first, second in ((tile[1:], tile[:-1]), (tile[:, 1:], tile[:, :-1])):
            pairs = np.stack([first.ravel(), second.ravel()], axis=1)
            differ = (pairs[:, 0] != pairs[:, 1]) & (pairs >= 0).all(axis=1)
            for a, b in np.unique(pairs[differ], axis=0).tolist():
                neighbours[a].add(b)
                neighbours[b].add(a)
    numbers = np.unique(np.concatenate([panel.tiles.ravel() for panel in panels]))
    colours: dict[int, int] = {}
    for number in numbers.tolist():
        # The previous tile is a neighbour in memory.
        used = {colours.get(n) for n in (number - 1, *neighbours[number])}
        ranked = [(number % cycle + more) % COLOURS for more in range(COLOURS)]
        colours[number] = next((c for c in ranked if c not in used), ranked[0])
    by_number = np.array([colours[number] for number in numbers.tolist()], np.int64)
    for panel in panels:
        yield replace(panel, colours=by_number[np.searchsorted(numbers, panel.tiles)])


def index_text(grid: Grid, leading: tuple[int, ...], row: str, column: str) -> str:
    """Return the index of a cell as text, such as "0,2,3"; a vector's cells have no row."""
    numbers = [*map(str, leading), row, column]
    return ",".join(numbers[max(0, len(numbers) - grid.shape.rank) :])


def axes_line(grid: Grid) -> str:
    """Return the caption line that names the dimensions drawn as rows and as columns."""
    down, across = grid.rows.dimension, grid.columns.dimension
    if across is None:
        return "no elements" if grid.shape.rank else "a scalar"
    return (
        f"dimension {across} across" if down is None else f"dimension {down} down, {across} across"
    )


def facts(grid: Grid) -> list[str]:
    """Return the caption lines with the sizes in elements and bytes, and the share of padding."""
    shape, size = grid.shape, grid.size
    count = shape.element_count
    padding = size - count
    share = f"{padding:,} of padding, {_percent(padding, size)}" if padding else "no padding"
    elements, byte_size = _plural(count, "element"), _plural(shape.padded_byte_size, "byte")
    lines = [f"{elements} in a buffer of {size:,} ({byte_size}): {share}"]
    if not shape.is_static:
        lines.append("dynamic dimensions are drawn at their bounds")
    tail = physical_of(shape).tail
    inside = size - grid.cell_count - tail
    places = [f"{inside:,} added by further levels of tiles"] if inside else []
    places += [f"{tail:,} at the end of the buffer"] if tail else []
    if places:
        lines.append(f"padding that is not drawn: {' and '.join(places)}")
    return lines


def legend(grid: Grid) -> str:
    """Return the caption line that explains colours, borders and hatching."""
    layout = grid.shape.layout
    tiles = [repr(tile) for tile in layout.tiles] if layout is not None else []
    entries = []
    if tiles:
        marks = ("colours: tiles of", "red borders: of", "dashed: of")
        entries = [f"{mark} {tile}" for mark, tile in zip(marks, tiles, strict=False)]
    elif grid.shape.rank > 1:
        minor = grid.shape.rank - 1 if layout is None else layout.minor_to_major[0]
        entries = [f"colours: runs of dimension {minor}, the most minor"]
    if grid.size > grid.shape.element_count:
        entries.append("hatched: padding")
    return "; ".join(entries)


def left_out(grid: Grid) -> list[str]:
    """Return a list of one caption line that counts what is drawn; [] if nothing is omitted."""
    if grid.is_complete:
        return []
    parts = [_axis_part(axis) for axis in (grid.rows, grid.columns) if not axis.is_complete]
    if len(grid.panels) < grid.panel_count:
        parts.append(f"{len(grid.panels)} of {grid.panel_count:,} grids")
    return [f"drawn: {', '.join(parts)}; the rest is omitted"]


def _axis_part(axis: Axis) -> str:
    where = "beside the scalar" if axis.dimension is None else f"along dimension {axis.dimension}"
    padded = f" ({axis.size:,} and padding)" if axis.extent > axis.size else ""
    return f"{len(axis.drawn)} of {axis.extent:,}{padded} {where}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _percent(part: int, total: int) -> str:
    # In integers, because a float does not have enough digits for large buffers.
    tenths = (part * 1000 + total // 2) // total
    if tenths == 0:
        return "less than 0.1%"
    return "more than 99.9%" if tenths == 1000 and part < total else f"{tenths / 10:g}%"
