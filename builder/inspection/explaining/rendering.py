"""Render the grids of an op as text and as SVG.

The SVG has no style sheet, no ids and no scripts, because these would affect other pictures in the
same page. Texts beside cells have the colour of the text around the picture.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from colorsys import hls_to_rgb
from html import escape
from typing import Final, NamedTuple

import numpy as np

from builder.inspection.explaining.grids import Box, Grid, Scene


def text_of(scene: Scene) -> str:
    """Return the picture as text."""
    lines = [scene.title]
    for grid in (*scene.operands, *scene.results):
        lines += ["", grid.title, *_rows(grid)]
    if scene.notes:
        lines += ["", *scene.notes]
    return "\n".join(line.rstrip() for line in lines)


def _rows(grid: Grid) -> Iterator[str]:
    if not grid.boxes:
        yield "  no elements"
        return
    sizes = grid.sizes
    rows = sizes[-2] if len(sizes) > 1 else 1
    columns = sizes[-1] if sizes else 1
    width = max(len(str(columns - 1)), *(len(box.label) for box in grid.boxes))
    margin = len(str(rows - 1))
    cells = iter(grid.boxes)
    for outer in np.ndindex(*sizes[:-2]):
        if outer:
            yield f"  [{', '.join(map(str, outer))}, :, :]"
        if sizes:
            names = [str(column).ljust(width) for column in range(columns)]
            yield f"  {'':{margin}}  {'  '.join(names)}"
        for row in range(rows):
            labels = [next(cells).label.ljust(width) for _ in range(columns)]
            name = str(row) if len(sizes) > 1 else ""
            yield f"  {name:>{margin}}  {'  '.join(labels)}"


_FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
_CHARACTER: Final = 7.3
_HEIGHT: Final = 26
_GAP: Final = 24
_WIDTH: Final = 720
_INK: Final = "#111"


class _Drawing(NamedTuple):
    """SVG elements in a rectangle whose top left corner is at (0, 0)."""

    body: list[str]
    width: float
    height: float


def svg_of(scene: Scene, *, with_background: bool) -> str:
    """Return the picture as the text of an SVG file."""
    arrow = _Drawing([_text(10, 50, "→", size=20)], 20, 50)
    first, *others = map(_grid, scene.results)
    # One drawing, because the arrow belongs to the line of the results.
    drawings = [*map(_grid, scene.operands), _beside([arrow, first], 16), *others]
    picture = _stack([_flow(drawings), *_notes(scene.notes)])
    margin = 14
    width, height = picture.width + 2 * margin, picture.height + 2 * margin
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{_FONT}" font-size="12" '
        f'text-anchor="middle" role="img" aria-label="{escape(scene.title)}">'
    )
    body = [head]
    if with_background:
        body.append(f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>')
    return "\n".join([*body, *_moved(picture, margin, margin), "</svg>"])


def _grid(grid: Grid) -> _Drawing:
    title = _Drawing([_text(0, 13, grid.title, anchor="start")], len(grid.title) * _CHARACTER, 18)
    if not grid.boxes:
        return _stack([title, _Drawing([_text(0, 13, "no elements", anchor="start")], 90, 18)], 6)
    sizes = grid.sizes
    rows = sizes[-2] if len(sizes) > 1 else 1
    columns = sizes[-1] if sizes else 1
    cell = max(30.0, max(len(box.label) for box in grid.boxes) * _CHARACTER + 10)
    panels = []
    for number, outer in enumerate(np.ndindex(*sizes[:-2])):
        boxes = grid.boxes[number * rows * columns : (number + 1) * rows * columns]
        panels.append(_panel(boxes, outer, columns, len(sizes), cell))
    return _stack([title, _flow(panels, 14)], 6)


def _panel(
    boxes: Sequence[Box], outer: tuple[int, ...], columns: int, rank: int, cell: float
) -> _Drawing:
    """Draw a matrix, with its index in the outer dimensions."""
    body, top, left = [], 0, 0
    if outer:
        body.append(_text(0, 12, f"[{', '.join(map(str, outer))}, :, :]", anchor="start"))
        top = 18
    if rank:
        for column in range(columns):
            x = (22 if rank > 1 else 0) + cell * (column + 0.5)
            body.append(_text(x, top + 10, str(column), size=10, opacity=0.65))
        top += 14
    if rank > 1:
        left = 22
        for row in range(len(boxes) // columns if columns else 0):
            y = top + _HEIGHT * row + 17
            body.append(_text(14, y, str(row), size=10, anchor="end", opacity=0.65))
    outlined = []
    for place, box in enumerate(boxes):
        x, y = left + cell * (place % columns), top + _HEIGHT * (place // columns)
        body.append(_box(box, x, y, cell))
        if box.is_outlined:
            # Above all cells, because neighbours would cover a part of the line.
            outlined.append(
                f'<rect x="{x:.1f}" y="{y}" width="{cell:.1f}" height="{_HEIGHT}" fill="none" '
                'stroke="#d33" stroke-width="2.5"/>'
            )
    height = top + _HEIGHT * (len(boxes) // columns)
    return _Drawing([*body, *outlined], left + cell * columns + 2, height + 2)


def _box(box: Box, x: float, y: float, cell: float) -> str:
    if box.colour is not None:
        fill, ink = _colour(box.colour), _INK
    elif box.is_outlined:
        fill, ink = "#fbe3a2", _INK
    else:
        fill, ink = "none", "currentColor"
    rect = (
        f'<rect x="{x:.1f}" y="{y}" width="{cell:.1f}" height="{_HEIGHT}" fill="{fill}" '
        'stroke="currentColor" stroke-opacity=".45"/>'
    )
    text = _text(x + cell / 2, y + 17, box.label, fill=ink)
    return f"<g><title>{escape(box.hover)}</title>{rect}{text}</g>"


def _colour(place: float) -> str:
    """Return a light colour for black text, as a hexadecimal number."""
    # Neighbours differ in lightness too, for readers who see no difference of hue.
    hue = 330 * place
    lightness = 0.72 + 0.14 * (round(place * 1000) % 2)
    return "#" + "".join(
        f"{round(255 * part):02x}" for part in hls_to_rgb(hue / 360, lightness, 0.65)
    )


def _notes(notes: Sequence[str]) -> list[_Drawing]:
    lines = [line for note in notes for line in textwrap.wrap(note, 120)]
    if not lines:
        return []
    body = [_text(0, 13 + 17 * i, line, anchor="start") for i, line in enumerate(lines)]
    return [_Drawing(body, max(map(len, lines)) * _CHARACTER, 17 * len(lines))]


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 12,
    fill: str = "currentColor",
    anchor: str = "",
    opacity: float = 1,
) -> str:
    attributes = f' font-size="{size}"' if size != 12 else ""
    attributes += f' text-anchor="{anchor}"' if anchor else ""
    attributes += f' fill-opacity="{opacity}"' if opacity < 1 else ""
    return f'<text x="{x:.1f}" y="{y:.0f}" fill="{fill}"{attributes}>{escape(text)}</text>'


def _moved(drawing: _Drawing, x: float, y: float) -> list[str]:
    return [f'<g transform="translate({x:.0f} {y:.0f})">', *drawing.body, "</g>"]


def _flow(drawings: Sequence[_Drawing], gap: float = _GAP) -> _Drawing:
    """Arrange drawings in lines, from left to right."""
    lines: list[_Drawing] = []
    line = _Drawing([], 0, 0)
    for drawing in drawings:
        if line.body and line.width + gap + drawing.width > _WIDTH:
            lines.append(line)
            line = _Drawing([], 0, 0)
        line = _beside([line, drawing] if line.body else [drawing], gap)
    return _stack([*lines, line])


def _beside(drawings: Sequence[_Drawing], gap: float) -> _Drawing:
    """Arrange drawings in one line."""
    body: list[str] = []
    width = -gap
    for drawing in drawings:
        body += _moved(drawing, width + gap, 0)
        width += gap + drawing.width
    return _Drawing(body, width, max(drawing.height for drawing in drawings))


def _stack(drawings: Sequence[_Drawing], between: float = 14) -> _Drawing:
    """Arrange drawings below each other."""
    body: list[str] = []
    height = 0.0
    for drawing in drawings:
        height += between if height else 0
        body += _moved(drawing, 0, height)
        height += drawing.height
    return _Drawing(body, max(drawing.width for drawing in drawings), height)
