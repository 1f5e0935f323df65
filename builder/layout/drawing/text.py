"""Render pictures as text."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from builder.layout.drawing.grid import (
    Axis,
    Grid,
    Panel,
    axes_line,
    facts,
    index_text,
    left_out,
    narrowed,
)

_Flags = npt.NDArray[np.bool_]

PADDING: Final = "."
GAP: Final = "..."

_BACKGROUNDS: Final = (117, 222, 209, 79, 218, 110)
"""The colours of tiles in the SVG picture, approximated in the 256-colour palette of terminals."""


def text_of(grid: Grid, labels: bool, color: bool, width: int) -> str:
    """Return the picture in lines of at most `width` characters.

    Columns that do not fit are omitted in an abbreviated picture, and are drawn below the first
    columns otherwise. A line with only one column may be longer than `width`.
    """
    if not (grid.rows.is_complete and grid.columns.is_complete):
        grid = _fitted(grid, labels, width)
    lines = [f"{grid.shape}: {axes_line(grid)}"]
    for panel in grid.panels:
        if grid.is_after_gap(panel):
            lines += ["", GAP]
        if panel.index:
            lines += ["", f"[{index_text(grid, panel.index, ':', ':')}]"]
        lines += _panel_lines(grid, panel, labels, color, width)
    lines += ["", *facts(grid), *left_out(grid)]
    return "\n".join(line.rstrip() for line in lines)


def _fitted(grid: Grid, labels: bool, width: int) -> Grid:
    """Return the grid with as many columns as fit into a line."""
    for most in range(len(grid.columns.drawn), 1, -1):
        candidate = narrowed(grid, most)
        columns = candidate.columns
        gaps = sum(map(columns.is_gap, range(len(columns.drawn))))
        available = width - len(f"{GAP} ") * gaps
        if all(_max_columns(candidate, panel, labels, available) >= most for panel in grid.panels):
            return candidate
    return narrowed(grid, 1)


def _max_columns(grid: Grid, panel: Panel, labels: bool, width: int) -> int:
    """Return how many columns of cells fit into a line of `width` characters."""
    return (width - _row_width(grid) - 3) // (_cell_width(grid, panel, labels) + 3)


def _cell_width(grid: Grid, panel: Panel, labels: bool) -> int:
    return max(
        len(str(panel.places.max())) if labels else 1,
        *(len(_header(grid.columns, position)) for position in range(len(grid.columns.drawn))),
    )


def _row_width(grid: Grid) -> int:
    """Return the number of characters of the longest row index."""
    return max((len(str(r)) for r in grid.rows.drawn if r < grid.rows.size), default=1)


def _panel_lines(grid: Grid, panel: Panel, labels: bool, color: bool, width: int) -> list[str]:
    lines: list[str] = []
    for block in grid.columns.blocks(_max_columns(grid, panel, labels, width)):
        if not lines or grid.columns.dimension is not None:
            lines.append("")
        lines += _block(grid, panel, block, labels, color)
    return lines


def _block(grid: Grid, panel: Panel, block: range, labels: bool, color: bool) -> list[str]:
    """Return the text lines of some columns of a panel; `block` is the range of these columns."""
    rows, columns = grid.rows, grid.columns
    cell_width, row_width = _cell_width(grid, panel, labels), _row_width(grid)
    beside, below = _tile_borders(panel)
    is_ruled = bool(beside[:, block.start : block.stop - 1].any())

    def line(head: str, cells: list[str], separators: list[str]) -> str:
        parts = [head]
        for position, cell, separator in zip(block, cells, ["", *separators], strict=True):
            parts += [separator, f"{GAP} " if columns.is_gap(position) else "", cell]
        return "".join(parts)

    gap_text = "   " if is_ruled else "  "
    blank = [gap_text] * (len(block) - 1)
    margin = " " * (row_width + 4)
    header = [_header(columns, position).rjust(cell_width) for position in block]
    lines = [] if columns.dimension is None else [line(margin, header, blank)]
    for row, index in enumerate(rows.drawn):
        if rows.is_gap(row):
            lines.append("  " + GAP)
        name = str(index) if rows.dimension is not None and index < rows.size else ""
        cells = [_cell(panel, row, c, cell_width, labels, color) for c in block]
        rules = [" | " if beside[row, c] else gap_text for c in block[:-1]]
        lines.append(line(f"  {name:>{row_width}}  ", cells, rules))
        if row + 1 < len(rows.drawn) and below[row, block.start : block.stop].any():
            dashes = [("-" if below[row, c] else " ") * cell_width for c in block]
            joints = [_joint(beside, below, row, c, gap_text) for c in block[:-1]]
            lines.append(line(margin, dashes, joints))
    return lines


def _tile_borders(panel: Panel) -> tuple[_Flags, _Flags]:
    """Return, for each cell, whether to draw a line at its right, and a line below it.

    The lines separate tiles. If every column is a separate tile or run, no lines are drawn between
    columns; if every row is a separate tile or run, no lines are drawn between rows.
    """
    beside, below = panel.borders[0]["right"], panel.borders[0]["bottom"]
    if beside[:, :-1].all():
        beside = np.zeros_like(beside)
    if below[:-1].all():
        below = np.zeros_like(below)
    return beside, below


def _joint(beside: _Flags, below: _Flags, row: int, column: int, gap: str) -> str:
    crossing = beside[row, column] or beside[row + 1, column]
    left, right = below[row, column], below[row, column + 1]
    if not crossing:
        return "-" * len(gap) if left and right else gap
    return ("-" if left else " ") + ("+" if left or right else "|") + ("-" if right else " ")


def _header(columns: Axis, position: int) -> str:
    index = columns.drawn[position]
    return str(index) if index < columns.size and columns.dimension is not None else ""


def _cell(panel: Panel, row: int, column: int, width: int, labels: bool, color: bool) -> str:
    place = int(panel.places[row, column])
    if place < 0:
        return " " * width
    if panel.is_padding[row, column]:
        return PADDING.rjust(width)
    text = (str(place) if labels else "#").rjust(width)
    if not color:
        return text
    return f"\033[30;48;5;{_BACKGROUNDS[int(panel.colours[row, column])]}m{text}\033[0m"
