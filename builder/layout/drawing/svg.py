"""Pictures as SVG, written by hand: nothing is needed for it but a reader.

No styles and no ids: pictures stand in pages, whose other pictures have them too. The ground is
white whatever the page's is.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import prod
from typing import Final

from builder.layout.drawing.caption import facts, index_text, left_out, legend
from builder.layout.drawing.grid import SIDES, Axis, Grid, Panel
from builder.layout.indexing import physical_of

__all__ = ["svg_of"]

_COLOURS: Final = ("#9df", "#ed8", "#e86", "#6c9", "#fab", "#7ad")
"""Fills for black text that colour-blind readers tell apart: Paul Tol's light scheme, nearly."""

_BORDERS: Final = (("#c00", ""), ("#222", ' stroke-dasharray="4 3"'))
"""The stroke of the second level of tiles, and of the third."""

_FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
_SIZE: Final = 13
_CHARACTER: Final = 0.61
"""The width of a character, as a part of the font's size."""

_HEIGHT: Final = 28
_GAP: Final = 22
_MARGIN: Final = 14
_WIDEST: Final = 1200
_MOST_IN_MEMORY: Final = 96
"""Buffers that are longer are not drawn as a line."""


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Elements of SVG that stand in a rectangle whose corner is 0, 0."""

    body: list[str]
    width: int
    height: int


def svg_of(grid: Grid, labels: bool) -> str:
    """The text of an SVG file."""
    title = _words([str(grid.shape)], size=15, fill="")
    parts = [title, _flow(_grids(grid, labels))]
    if grid.is_complete and labels and 1 < grid.size <= _MOST_IN_MEMORY:
        parts.append(_memory(grid))
    parts.append(_words([*filter(None, [legend(grid)]), *facts(grid), *left_out(grid)]))
    whole = _stack(parts)
    width, height = whole.width + 2 * _MARGIN, whole.height + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{_FONT}" font-size="{_SIZE}" '
        f'text-anchor="middle" role="img" aria-label="{escape(str(grid.shape))} in memory">'
    )
    lines = [
        head,
        f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>',
        *_moved(whole, _MARGIN, _MARGIN),
        "</svg>",
    ]
    return "\n".join(lines)


def _grids(grid: Grid, labels: bool) -> list[_Drawing]:
    """The panels, each in as many pieces as its columns need; dots where some are left out."""
    cell = 18
    if labels:
        highest = max((int(panel.places.max()) for panel in grid.panels), default=0)
        numbers = [highest, *grid.columns.drawn]
        cell = max(32, _length(str(max(numbers)), _SIZE) + 10)
    drawings: list[_Drawing] = []
    for number, panel in enumerate(grid.panels):
        if number and number == len(grid.panels) - 1 and len(grid.panels) < grid.panel_count:
            drawings.append(_Drawing([_text(10, 60, "…", size=20)], 20, 60))
        blocks = grid.columns.blocks((_WIDEST - 100) // cell)
        drawings += [_block(grid, panel, block, labels, cell) for block in blocks]
    return drawings


def _block(grid: Grid, panel: Panel, block: range, labels: bool, cell: int) -> _Drawing:
    """Some columns of a panel, with the labels of rows and columns around."""
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
    across = _positions(columns, block, left, cell)
    down = _positions(rows, range(len(rows.drawn)), top, height)
    right, bottom = across[-1] + cell, down[-1] + height

    if columns.dimension is not None:
        body.append(_axis_name(columns, (left + right) // 2, top - 20, ""))
        for x, c in zip(across, block, strict=True):
            body.append(_axis_index(columns, c, x + cell // 2, top - 6, "middle"))
    if rows.dimension is not None:
        middle = (top + bottom) // 2
        body.append(_axis_name(rows, 8, middle, f' transform="rotate(-90 8 {middle})"'))
        for r, y in enumerate(down):
            body.append(_axis_index(rows, r, left - 7, y + height // 2 + 4, "end"))
    body += _cells(grid, panel, block, across, down, cell, height, labels)
    for level, style in reversed(list(enumerate(_BORDERS, 1))):  # red above what is dashed
        if level < len(panel.borders):
            body.append(_border(panel, level, block, across, down, cell, height, style))
    body += [
        _text(x - _GAP // 2, y + height // 2 + 4, "…", fill="#666")
        for x, c in zip(across, block, strict=True)
        if columns.is_gap(c)
        for y in down
    ]
    body += [
        _text(x + cell // 2, y - _GAP // 2 + 5, "⋮", fill="#666")
        for r, y in enumerate(down)
        if rows.is_gap(r)
        for x in across
    ]
    return _Drawing(body, right, bottom)


def _positions(axis: Axis, block: range, start: int, step: int) -> list[int]:
    """Where each of the axis's cells begins; a gap takes room too."""
    found = []
    for position in block:
        start += _GAP if axis.is_gap(position) else 0
        found.append(start)
        start += step
    return found


def _cells(
    grid: Grid,
    panel: Panel,
    block: range,
    across: Sequence[int],
    down: Sequence[int],
    cell: int,
    height: int,
    labels: bool,
) -> list[str]:
    body = []
    places, is_padding = panel.places.tolist(), panel.is_padding.tolist()
    colours = panel.colours.tolist()
    for r, y in enumerate(down):
        row = str(grid.rows.drawn[r])
        for x, c in zip(across, block, strict=True):
            place = places[r][c]
            if place < 0:
                continue
            index = index_text(grid, panel.index, row, str(grid.columns.drawn[c]))
            padding = is_padding[r][c]
            body.append(
                _cell(
                    x,
                    y,
                    cell,
                    height,
                    colour=None if padding else colours[r][c],
                    title=f"padding at {place}" if padding else f"({index}) at {place}",
                    label=str(place) if labels else "",
                )
            )
    return body


def _cell(
    x: int, y: int, width: int, height: int, *, colour: int | None, title: str, label: str
) -> str:
    fill = '#fff" stroke="#bbb' if colour is None else _COLOURS[colour]
    # The white lines between cells are what a cell leaves of its place.
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


def _border(
    panel: Panel,
    level: int,
    block: range,
    across: Sequence[int],
    down: Sequence[int],
    cell: int,
    height: int,
    style: tuple[str, str],
) -> str:
    """The lines around the tiles of a level."""
    flags = {side: panel.borders[level][side].tolist() for side in SIDES}
    level_lines: set[tuple[int, int]] = set()  # as where they begin: y, x
    upright: set[tuple[int, int]] = set()  # x, y
    for r, y in enumerate(down):
        for x, c in zip(across, block, strict=True):
            level_lines.update(
                (y + d, x) for s, d in (("top", 0), ("bottom", height)) if flags[s][r][c]
            )
            upright.update((x + d, y) for s, d in (("left", 0), ("right", cell)) if flags[s][r][c])
    path = [f"M{x} {y}h{length}" for y, x, length in _joined(level_lines, cell)]
    path += [f"M{x} {y}v{length}" for x, y, length in _joined(upright, height)]
    colour, dashes = style
    return f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'


def _joined(lines: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int, int]]:
    """Lines of one length that go on where another ends become one."""
    found: list[tuple[int, int, int]] = []
    for across, start in sorted(lines):
        if found and found[-1][0] == across and found[-1][1] + found[-1][2] == start:
            found[-1] = (across, found[-1][1], found[-1][2] + length)
        else:
            found.append((across, start, length))
    return found


def _memory(grid: Grid) -> _Drawing:
    """The buffer from its beginning to its end: in each place the index of its element."""
    elements: dict[int, tuple[str, int]] = {}
    for panel in grid.panels:
        for r, row in enumerate(grid.rows.drawn):
            for c, column in enumerate(grid.columns.drawn):
                if panel.places[r, c] >= 0 and not panel.is_padding[r, c]:
                    index = index_text(grid, panel.index, str(row), str(column))
                    elements[int(panel.places[r, c])] = index, int(panel.colours[r, c])
    cell = max(26, *(_length(index, 12) + 10 for index, _ in elements.values()), 0)
    most = max((_WIDEST - 100) // cell, 1)
    steps = physical_of(grid.shape)
    unit = prod(steps.tilings[0].tile if steps.tilings else steps.ordered[-1:])
    step = most // unit * unit or most  # a line ends with a tile if it can
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
    return _stack([_words(["in memory, the index of each element:"]), *lines], between=4)


def _axis_name(axis: Axis, x: int, y: int, turned: str) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="11" fill="#666"{turned}>'
        f"dimension {axis.dimension}</text>"
    )


def _axis_index(axis: Axis, position: int, x: int, y: int, anchor: str) -> str:
    index = axis.drawn[position]
    fill = "#333" if index < axis.size else "#c0c0c0"
    return _text(x, y, str(index), size=11, fill=fill, anchor=anchor)


def _words(paragraphs: Sequence[str], size: int = 12, fill: str = "#333") -> _Drawing:
    lines = [line for each in paragraphs for line in textwrap.wrap(each, 110)]
    step = size + 5
    body = [
        _text(0, step * number + size, line, size=size, fill=fill, anchor="start")
        for number, line in enumerate(lines)
    ]
    return _Drawing(body, max(_length(line, size) for line in lines), step * len(lines))


def _text(
    x: int, y: int, text: str, *, size: int = _SIZE, fill: str = "", anchor: str = "middle"
) -> str:
    # What is said for the whole picture is not said again: there may be thousands of these.
    said = f' font-size="{size}"' if size != _SIZE else ""
    said += f' fill="{fill}"' if fill else ""
    said += f' text-anchor="{anchor}"' if anchor != "middle" else ""
    return f'<text x="{x}" y="{y}"{said}>{escape(text)}</text>'


def _length(text: str, size: int) -> int:
    return round(len(text) * size * _CHARACTER)


def _moved(drawing: _Drawing, x: int, y: int) -> list[str]:
    return [f'<g transform="translate({x} {y})">', *drawing.body, "</g>"]


def _flow(drawings: Sequence[_Drawing]) -> _Drawing:
    """Drawings side by side, in as many lines as they need."""
    lines: list[_Drawing] = []
    line = _Drawing([], 0, 0)
    for drawing in drawings:
        x = line.width + _GAP if line.body else 0
        if line.body and x + drawing.width > _WIDEST:
            lines.append(line)
            line, x = _Drawing([], 0, 0), 0
        body = [*line.body, *_moved(drawing, x, 0)]
        line = _Drawing(body, x + drawing.width, max(line.height, drawing.height))
    return _stack([*lines, line])


def _stack(drawings: Sequence[_Drawing], between: int = 12) -> _Drawing:
    """Drawings below each other."""
    body: list[str] = []
    height = 0
    for drawing in drawings:
        if drawing.body:
            height += between if height else 0
            body += _moved(drawing, 0, height)
            height += drawing.height
    return _Drawing(body, max(drawing.width for drawing in drawings), height)
