"""Pictures in characters, for terminals."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from builder.layout.drawing.caption import axes_line, facts, index_text, left_out
from builder.layout.drawing.grid import Axis, Grid, Panel, narrowed

__all__ = ["text_of"]

_Flags = npt.NDArray[np.bool_]

PADDING: Final = "."
GAP: Final = "..."

_BACKGROUNDS: Final = (117, 222, 209, 79, 218, 110)
"""Of the 256 colours of terminals those nearest to the colours of the SVG."""


def text_of(grid: Grid, labels: bool, color: bool, width: int) -> str:
    """The whole picture. Lines hold at most `width` characters where a column leaves room.

    A summary leaves out columns that do not fit; of a whole picture they stand below the others.
    """
    if not (grid.rows.is_complete and grid.columns.is_complete):
        grid = _one_wide(grid, labels, width)
    lines = [f"{grid.shape}: {axes_line(grid)}"]
    for number, panel in enumerate(grid.panels):
        if number and number == len(grid.panels) - 1 and len(grid.panels) < grid.panel_count:
            lines += ["", GAP]
        if len(panel.index):
            lines += ["", f"[{index_text(grid, panel.index, ':', ':')}]"]
        lines += _panel_lines(grid, panel, labels, color, width)
    lines += ["", *facts(grid), *left_out(grid)]
    return "\n".join(line.rstrip() for line in lines)


def _one_wide(grid: Grid, labels: bool, width: int) -> Grid:
    """The grid with as many columns as fit side by side."""
    for most in range(len(grid.columns.drawn), 1, -1):
        made = grid if most == len(grid.columns.drawn) else narrowed(grid, most)
        columns = made.columns
        gaps = sum(map(columns.is_gap, range(len(columns.drawn))))
        room = width - len(f"{GAP} ") * gaps
        if all(_most_columns(made, panel, labels, room) >= most for panel in made.panels):
            return made
    return narrowed(grid, 1)


def _most_columns(grid: Grid, panel: Panel, labels: bool, width: int) -> int:
    """How many columns fit into lines of this length."""
    return (width - _row_label(grid) - 3) // (_cell_width(grid, panel, labels) + 3)


def _cell_width(grid: Grid, panel: Panel, labels: bool) -> int:
    return max(
        len(str(panel.places.max())) if labels else 1,
        *(len(_header(grid.columns, position)) for position in range(len(grid.columns.drawn))),
    )


def _row_label(grid: Grid) -> int:
    return max((len(str(r)) for r in grid.rows.drawn if r < grid.rows.size), default=1)


def _panel_lines(grid: Grid, panel: Panel, labels: bool, color: bool, width: int) -> list[str]:
    wide, label = _cell_width(grid, panel, labels), _row_label(grid)
    lines: list[str] = []
    for block in grid.columns.blocks(_most_columns(grid, panel, labels, width)):
        lines += [
            *([""] if not lines or grid.columns.dimension is not None else []),
            *_block(grid, panel, block, wide, label, labels, color),
        ]
    return lines


def _block(
    grid: Grid, panel: Panel, block: range, wide: int, label: int, labels: bool, color: bool
) -> list[str]:
    rows, columns = grid.rows, grid.columns
    beside, below = _lines_between(panel)
    is_ruled = bool(beside[:, block.start : block.stop - 1].any())

    def line(head: str, cells: list[str], between: list[str]) -> str:
        parts = [head]
        for position, cell in zip(block, cells, strict=True):
            gap = columns.is_gap(position)
            if position > block.start:
                parts.append(between[position - 1 - block.start])
                parts.append(f"{GAP} " if gap and position - 1 in block else "")
            elif gap:
                parts.append(f"{GAP} ")
            parts.append(cell)
        return "".join(parts)

    gap_text = "   " if is_ruled else "  "
    blank = [gap_text] * (len(block) - 1)
    margin = " " * (label + 4)
    header = [_header(columns, position).rjust(wide) for position in block]
    lines = [] if columns.dimension is None else [line(margin, header, blank)]
    for row, index in enumerate(rows.drawn):
        if rows.is_gap(row):
            lines.append("  " + GAP)
        name = str(index) if rows.dimension is not None and index < rows.size else ""
        cells = [_cell(panel, row, c, wide, labels, color) for c in block]
        ruled = [" | " if beside[row, c] else gap_text for c in block[:-1]]
        lines.append(line(f"  {name:>{label}}  ", cells, ruled))
        if row + 1 < len(rows.drawn) and below[row, block.start : block.stop].any():
            dashes = ["-" * wide if below[row, c] else " " * wide for c in block]
            joints = [_joint(beside, below, row, c, gap_text) for c in block[:-1]]
            lines.append(line(margin, dashes, joints))
    return lines


def _lines_between(panel: Panel) -> tuple[_Flags, _Flags]:
    """Where lines stand right of cells and below them: between tiles.

    None where every row, or every column, is a tile (or a run) of its own: they would say nothing.
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


def _cell(panel: Panel, row: int, column: int, wide: int, labels: bool, color: bool) -> str:
    place = int(panel.places[row, column])
    if place < 0:
        return " " * wide
    if panel.is_padding[row, column]:
        return PADDING.rjust(wide)
    text = (str(place) if labels else "#").rjust(wide)
    if not color:
        return text
    return f"\033[30;48;5;{_BACKGROUNDS[int(panel.colours[row, column])]}m{text}\033[0m"
