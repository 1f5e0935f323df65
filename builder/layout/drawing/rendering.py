"""Render pictures as SVG and as text, and save them to files.

The SVG has a white background. It contains no style sheet and no ids, because these would affect
other pictures in the same page.
"""

from __future__ import annotations

import os
import secrets
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import prod
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from builder.errors import OperandError, brief, error_of
from builder.layout.drawing.grid import (
    Axis,
    Grid,
    Panel,
    axes_line,
    facts,
    index_text,
    left_out,
    legend,
    narrowed,
)
from builder.layout.indexing import physical_of

_COLOURS: Final = ("#9df", "#ed8", "#e86", "#6c9", "#fab", "#7ad")
"""Fills for black text, distinguishable with colour blindness: based on Paul Tol's light scheme."""

_BORDERS: Final = (("#c00", ""), ("#222", ' stroke-dasharray="4 3"'))
"""The colour and the dash attribute of the borders of second-level and third-level tiles."""

_FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
_SIZE: Final = 13
_CHARACTER: Final = 0.61
"""The width of a character, relative to the font size."""

_HEIGHT: Final = 28
_GAP: Final = 22
_MARGIN: Final = 14
_MAX_WIDTH: Final = 620
"""Wider pictures are cut off in a notebook of 700 pixels."""

_BESIDE: Final = 100
"""The width for the indices of rows and for gaps."""

_MAX_BUFFER: Final = 96
"""The maximum size, in elements, of a buffer that `_memory` draws."""


@dataclass(frozen=True, slots=True)
class _Drawing:
    """SVG elements in a rectangle whose top left corner is at (0, 0)."""

    body: list[str]
    width: int
    height: int


def svg_of(grid: Grid, labels: bool) -> str:
    """Return a picture of the grid as the text of an SVG file."""
    title = _paragraphs([str(grid.shape)], size=15, fill="")
    parts = [title, _flow(_grids(grid, labels))]
    if grid.is_complete and labels and 1 < grid.size <= _MAX_BUFFER:
        parts.append(_memory(grid))
    parts.append(_paragraphs([*filter(None, [legend(grid)]), *facts(grid), *left_out(grid)]))
    picture = _stack(parts)
    width, height = picture.width + 2 * _MARGIN, picture.height + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{_FONT}" font-size="{_SIZE}" '
        f'text-anchor="middle" style="max-width:100%;height:auto" role="img" '
        f'aria-label="{escape(str(grid.shape))} in memory">'
    )
    background = f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>'
    return "\n".join([head, background, *_moved(picture, _MARGIN, _MARGIN), "</svg>"])


def _grids(grid: Grid, labels: bool) -> list[_Drawing]:
    """Draw the panels, each in blocks of columns, with dots for omitted panels."""
    cell = 18
    if labels:
        highest = max((int(panel.places.max()) for panel in grid.panels), default=0)
        numbers = [highest, *grid.columns.drawn]
        cell = max(32, _length(str(max(numbers)), _SIZE) + 10)
    drawings: list[_Drawing] = []
    for panel in grid.panels:
        if grid.is_after_gap(panel):
            drawings.append(_Drawing([_text(10, 60, "…", size=20)], 20, 60))
        blocks = grid.columns.blocks((_MAX_WIDTH - _BESIDE) // cell)
        drawings += [_block(grid, panel, block, labels, cell) for block in blocks]
    return drawings


def _block(grid: Grid, panel: Panel, block: range, labels: bool, width: int) -> _Drawing:
    """Draw the columns `block` of a panel, with row indices and column indices."""
    rows, columns = grid.rows, grid.columns
    left, top = 0, 0
    body = []
    if panel.index:
        name = f"[{index_text(grid, panel.index, ':', ':')}]"
        body.append(_text(0, 13, name, anchor="start"))
        top = 20
    if rows.dimension is not None:
        last = max((r for r in rows.drawn if r < rows.size), default=0)
        left = 26 + _length(str(last), 11)
    if columns.dimension is not None:
        top += 32
    height = _HEIGHT if labels else 18
    across = _positions(columns, block, left, width)
    down = list(enumerate(_positions(rows, range(len(rows.drawn)), top, height)))
    right, bottom = across[-1] + width, down[-1][1] + height
    cells = [(r, y, c, x) for r, y in down for c, x in zip(block, across, strict=True)]

    if columns.dimension is not None:
        body.append(_axis_name(columns, (left + right) // 2, top - 20, ""))
        for c, x in zip(block, across, strict=True):
            body.append(_axis_index(columns, c, x + width // 2, top - 6, "middle"))
    if rows.dimension is not None:
        middle = (top + bottom) // 2
        body.append(_axis_name(rows, 8, middle, f' transform="rotate(-90 8 {middle})"'))
        for r, y in down:
            body.append(_axis_index(rows, r, left - 7, y + height // 2 + 4, "end"))
    places, is_padding = panel.places.tolist(), panel.is_padding.tolist()
    colours = panel.colours.tolist()
    for r, y, c, x in cells:
        place, colour = places[r][c], colours[r][c]
        if place < 0:
            continue
        index = index_text(grid, panel.index, str(rows.drawn[r]), str(columns.drawn[c]))
        title = f"({index}) at {place}"
        if is_padding[r][c]:
            title, colour = f"padding at {place}", None
        label = str(place) if labels else ""
        body.append(_cell(x, y, width, height, colour=colour, title=title, label=label))
    for level, style in reversed(list(enumerate(_BORDERS, 1))):  # red lines cover dashed ones
        if level < len(panel.borders):
            body.append(_borders_of_tiles(panel.borders[level], cells, width, height, style))
    gaps = [
        (x - _GAP // 2, y + height // 2 + 4, "…")
        for c, x in zip(block, across, strict=True)
        if columns.is_gap(c)
        for _, y in down
    ]
    gaps += [(x + width // 2, y - _GAP // 2 + 5, "⋮") for r, y, _, x in cells if rows.is_gap(r)]
    body += [_text(*gap, fill="#666") for gap in gaps]
    return _Drawing(body, right, bottom)


def _positions(axis: Axis, block: range, start: int, step: int) -> list[int]:
    """Return the coordinate where each cell of `block` starts; a gap shifts all later cells."""
    starts = []
    for position in block:
        start += _GAP if axis.is_gap(position) else 0
        starts.append(start)
        start += step
    return starts


def _cell(
    x: int, y: int, width: int, height: int, *, colour: int | None, title: str, label: str
) -> str:
    fill = '#fff" stroke="#bbb' if colour is None else _COLOURS[colour]
    # One pixel smaller, which leaves white lines between cells.
    size = f'width="{width - 1}" height="{height - 1}"'
    parts = [f'<g><title>{title}</title><rect x="{x}" y="{y}" {size} fill="{fill}"/>']
    if colour is None:
        width, height = width - 1, height - 1
        half, middle = width // 2, height // 2
        lines = f"M{x} {y + middle}l{half} -{middle}M{x} {y + height}l{width} -{height}"
        lines += f"M{x + width - half} {y + height}l{half} -{middle}"
        parts.append(f'<path d="{lines}" stroke="#d0d0d0"/>')
    if label:
        ink = "#707070" if colour is None else ""
        parts.append(_text(x + width // 2, y + height // 2 + 5, label, fill=ink))
    return "".join([*parts, "</g>"])


def _borders_of_tiles(
    ends_at: Mapping[str, NDArray[np.bool_]],
    cells: Sequence[tuple[int, int, int, int]],
    width: int,
    height: int,
    style: tuple[str, str],
) -> str:
    """Draw the lines around the tiles of one level, as an SVG path.

    Args:
        ends_at: for each side, "top", "bottom", "left" and "right", whether a tile ends at that
            side of a cell, for each row and column.
        cells: for each cell its row, y, column and x.
        width, height: the size of each cell.
        style: the colour, and the attribute for dashes.
    """
    horizontal: set[tuple[int, int]] = set()  # (y, x) where the line begins
    vertical: set[tuple[int, int]] = set()  # (x, y) where the line begins
    for row, y, column, x in cells:
        if ends_at["top"][row, column]:
            horizontal.add((y, x))
        if ends_at["bottom"][row, column]:
            horizontal.add((y + height, x))
        if ends_at["left"][row, column]:
            vertical.add((x, y))
        if ends_at["right"][row, column]:
            vertical.add((x + width, y))
    path = [f"M{x} {y}h{length}" for y, x, length in _joined(horizontal, width)]
    path += [f"M{x} {y}v{length}" for x, y, length in _joined(vertical, height)]
    colour, dashes = style
    return f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'


def _joined(lines: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int, int]]:
    """Join lines that touch; return the position, the start and the length of each joined line."""
    joined: list[tuple[int, int, int]] = []
    for across, start in sorted(lines):
        if joined and joined[-1][0] == across and joined[-1][1] + joined[-1][2] == start:
            joined[-1] = (across, joined[-1][1], joined[-1][2] + length)
        else:
            joined.append((across, start, length))
    return joined


def _memory(grid: Grid) -> _Drawing:
    """Draw the buffer as lines of cells with the index of each element."""
    elements: dict[int, tuple[str, int]] = {}
    for panel in grid.panels:
        for r, c in np.argwhere((panel.places >= 0) & ~panel.is_padding).tolist():
            row, column = str(grid.rows.drawn[r]), str(grid.columns.drawn[c])
            index = index_text(grid, panel.index, row, column)
            elements[int(panel.places[r, c])] = index, int(panel.colours[r, c])
    cell = max(26, *(_length(index, 12) + 10 for index, _ in elements.values()), 0)
    most = max(_MAX_WIDTH // cell, 1)
    form = physical_of(grid.shape)
    unit = prod(form.tilings[0].tile if form.tilings else form.ordered[-1:])
    step = most // unit * unit or most  # if possible, lines end with a tile
    lines = []
    for start in range(0, grid.size, step):
        body = []
        places = range(start, min(start + step, grid.size))
        for x, place in zip(range(0, cell * len(places), cell), places, strict=True):
            index, colour = elements.get(place, ("", None))
            title = f"{place}: ({index})" if colour is not None else f"{place}: padding"
            body.append(_text(x + cell // 2, 10, str(place), size=10, fill="#666"))
            body.append(_cell(x, 14, cell, 24, colour=colour, title=title, label=index))
        lines.append(_Drawing(body, cell * len(places), 38))
    return _stack([_paragraphs(["in memory, the index of each element:"]), *lines], between=4)


def _axis_name(axis: Axis, x: int, y: int, turned: str) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="11" fill="#666"{turned}>'
        f"dimension {axis.dimension}</text>"
    )


def _axis_index(axis: Axis, position: int, x: int, y: int, anchor: str) -> str:
    index = axis.drawn[position]
    fill = "#333" if index < axis.size else "#888"
    return _text(x, y, str(index), size=11, fill=fill, anchor=anchor)


def _paragraphs(texts: Sequence[str], size: int = 12, fill: str = "#333") -> _Drawing:
    lines = [
        line
        for text in texts
        for line in textwrap.wrap(text, _MAX_WIDTH // _length("x" * 10, size) * 10)
    ]
    step = size + 5
    body = [
        _text(0, step * number + size, line, size=size, fill=fill, anchor="start")
        for number, line in enumerate(lines)
    ]
    return _Drawing(body, max(_length(line, size) for line in lines), step * len(lines))


def _text(
    x: int, y: int, text: str, *, size: int = _SIZE, fill: str = "", anchor: str = "middle"
) -> str:
    # The attributes of the `svg` element are omitted, because there may be thousands of texts.
    attributes = f' font-size="{size}"' if size != _SIZE else ""
    attributes += f' fill="{fill}"' if fill else ""
    attributes += f' text-anchor="{anchor}"' if anchor != "middle" else ""
    return f'<text x="{x}" y="{y}"{attributes}>{escape(text)}</text>'


def _length(text: str, size: int) -> int:
    return round(len(text) * size * _CHARACTER)


def _moved(drawing: _Drawing, x: int, y: int) -> list[str]:
    return [f'<g transform="translate({x} {y})">', *drawing.body, "</g>"]


def _flow(drawings: Sequence[_Drawing]) -> _Drawing:
    """Arrange drawings in lines, from left to right."""
    lines: list[_Drawing] = []
    line = _Drawing([], 0, 0)
    for drawing in drawings:
        x = line.width + _GAP if line.body else 0
        if line.body and x + drawing.width > _MAX_WIDTH:
            lines.append(line)
            line, x = _Drawing([], 0, 0), 0
        body = [*line.body, *_moved(drawing, x, 0)]
        line = _Drawing(body, x + drawing.width, max(line.height, drawing.height))
    return _stack([*lines, line])


def _stack(drawings: Sequence[_Drawing], between: int = 12) -> _Drawing:
    """Arrange drawings below each other."""
    body: list[str] = []
    height = 0
    for drawing in drawings:
        if drawing.body:
            height += between if height else 0
            body += _moved(drawing, 0, height)
            height += drawing.height
    return _Drawing(body, max(drawing.width for drawing in drawings), height)


def save_as(path: str | os.PathLike[str], writers: Mapping[str, Callable[[], str]]) -> None:
    """Write a picture to a file, atomically.

    Args:
        path: the file.
        writers: for each suffix a function that returns the content.

    Raises:
        OperandError: `path` is not a str or path object, has another suffix, or can't be written.
    """
    try:
        file = Path(path)
    except TypeError:
        raise OperandError(
            "path must be a str or os.PathLike", got=brief(path), op="save"
        ) from None
    write = writers.get(file.suffix.lower())
    if write is None:
        *others, last = writers
        rule = f"path must end in {', '.join(others)} or {last}"
        raise error_of(OperandError, "save", rule, got=brief(os.fspath(path)))
    _write(file, write())


def _write(file: Path, text: str) -> None:
    """Write a temporary file and rename it, so that the file is never incomplete."""
    temporary = file.with_name(f".{file.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            with temporary.open("x", encoding="utf-8") as stream:
                stream.write(text)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"{brief(str(file))} can't be written: {reason[:1].lower()}{reason[1:]}"
        raise error_of(OperandError, "save", rule) from None


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
        lines += _block_of_text(grid, panel, block, labels, color)
    return lines


def _block_of_text(grid: Grid, panel: Panel, block: range, labels: bool, color: bool) -> list[str]:
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
        cells = [_cell_as_text(panel, row, c, cell_width, labels, color) for c in block]
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


def _cell_as_text(
    panel: Panel, row: int, column: int, width: int, labels: bool, color: bool
) -> str:
    place = int(panel.places[row, column])
    if place < 0:
        return " " * width
    if panel.is_padding[row, column]:
        return PADDING.rjust(width)
    text = (str(place) if labels else "#").rjust(width)
    if not color:
        return text
    return f"\033[30;48;5;{_BACKGROUNDS[int(panel.colours[row, column])]}m{text}\033[0m"
