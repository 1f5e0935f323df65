"""Arrange elements in grids, and render the grids of an op as text and as SVG.

A grid decides what each cell shows, and which cells have one colour.

The SVG has no style sheet, no ids and no scripts, because these would affect other pictures in the
same page. Texts beside cells have the colour of the text around the picture.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from html import escape
from string import ascii_lowercase
from typing import Final, NamedTuple

import numpy as np

from builder.errors import OperandError, brief, error_of
from builder.graph.xla_op import XlaOp, is_constant
from builder.inspection.explaining.elements import (
    Context,
    Join,
    Numbers,
    Outcome,
    Value,
    Values,
    operand_name,
)
from builder.inspection.table import constant_text
from builder.types.shape import leaves

_MAX_LABEL: Final = 22


@dataclass(frozen=True, slots=True)
class Box:
    """A cell.

    Attributes:
        label: the text in the cell.
        hover: the text under the mouse.
        colour: the place of its colour in a circle of colours, from 0 to 1; None for no colour.
        is_outlined: whether the cell is outlined.
    """

    label: str
    hover: str
    colour: float | None
    is_outlined: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """An array: its heading, its sizes, and its cells in row-major order."""

    title: str
    sizes: tuple[int, ...]
    boxes: Sequence[Box]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a picture shows.

    Attributes:
        title: the op.
        operands, results: the grids.
        notes: sentences below the grids.
    """

    title: str
    operands: Sequence[Grid]
    results: Sequence[Grid]
    notes: Sequence[str]
    numbers: Sequence[Numbers]
    values: Sequence[Values]

    def sources(
        self, result: int, index: tuple[int, ...]
    ) -> list[list[tuple[int, tuple[int, ...]]]]:
        """Return the elements that an element is computed from; see `Explanation.sources`."""
        try:
            value: Value | None = self.values[result][index]
        except (IndexError, TypeError):
            value = None
        if type(value) is not tuple:
            shapes = [values.shape for values in self.values]
            rule = f"the results have the sizes {brief(shapes)}"
            got = f"the result {brief(result)} and the index {brief(index)}"
            raise error_of(OperandError, "sources", rule, got=got)
        return [[self._place(number) for number in term] for term in value]

    def _place(self, number: int) -> tuple[int, tuple[int, ...]]:
        for operand, numbers in enumerate(self.numbers):
            first = int(numbers.flat[0]) if numbers.size else 0
            if numbers.size and first <= number < first + numbers.size:
                return operand, tuple(map(int, np.unravel_index(number - first, numbers.shape)))
        raise AssertionError(number)  # numbers are those of operands


def scene_of(
    context: Context, operands: Sequence[XlaOp], outcome: Outcome, is_collective: bool
) -> Scene:
    """Return what the picture of an op shows."""
    op = context.op
    flat = [array for arrays in context.numbers for array in arrays]
    names, labels, titles = _labelled(context, operands, is_collective)
    moves = all(len(value) <= 1 and all(len(t) == 1 for t in value) for value in _every(outcome))
    colours, by_result = _colours(outcome, flat, moves)
    focus = _focus(outcome) if not moves and by_result is None else None
    focused = {number for term in focus[1] for number in term} if focus is not None else set()

    grids = []
    for heading, numbers in zip(titles, flat, strict=True):
        boxes = [
            Box(labels[number], names[number], colours.get(number), number in focused)
            for number in numbers.reshape(-1).tolist()
        ]
        grids.append(Grid(heading, numbers.shape, boxes))
    results = []
    notes = list(context.notes)
    place = 0
    for number, values in enumerate(outcome.results):
        boxes = []
        flat_values: list[Value] = values.reshape(-1).tolist()
        formulas = [_formula(value, labels, outcome.join) for value in flat_values]
        is_long = any(len(formula) > _MAX_LABEL for formula in formulas)
        places = np.ndindex(*values.shape)
        for index, value, formula in zip(places, flat_values, formulas, strict=True):
            is_focus = focus is not None and focus[0] == place
            colour = by_result[place] if by_result is not None else None
            if moves:
                colour = colours.get(value[0][0]) if value else None
            label = f"{len(value)} terms" if is_long and len(value) != 1 else formula
            where = f"[{', '.join(map(str, index))}]" if index else ""
            hover = f"result{where} = {formula}"
            boxes.append(Box(label, hover, colour, is_focus))
            if is_focus:
                notes.insert(0, hover)
            place += 1
        title = _result_title(op, number, len(outcome.results), context, is_collective)
        results.append(Grid(title, values.shape, boxes))
    return Scene(op.opcode, grids, results, notes, flat, outcome.results)


def _labelled(
    context: Context, operands: Sequence[XlaOp], is_collective: bool
) -> tuple[dict[int, str], dict[int, str], list[str]]:
    """Return the name and the label of each element, and the titles of the operands."""
    names: dict[int, str] = {}
    labels: dict[int, str] = {}
    titles = []
    letters = iter(_letters(sum(map(len, context.numbers))))
    for participant, arrays in enumerate(context.numbers):
        for number, (operand, array) in enumerate(zip(operands, arrays, strict=True)):
            letter = next(letters)
            name = operand_name(context.op, number)
            known = context.known.get(number)
            title = f"{name} of replica {participant}" if is_collective else name
            titles.append(f"{title}  {operand.shape}")
            for place, (index, element) in enumerate(np.ndenumerate(array)):
                key = int(element)
                label = f"{letter}{place}" if array.ndim else letter
                where = f"{name}[{', '.join(map(str, index))}]" if index else name
                if known is not None:
                    where += f" = {_number(known[index])}"
                    label = _number(known[index]) if _is_index(context, number) else label
                elif is_constant(operand) and not array.ndim:
                    label = constant_text(operand.attributes["value"], operand.shape.element_type)
                names[key], labels[key] = where, label
            if known is not None and not _is_index(context, number):
                for index, element in np.ndenumerate(array):
                    labels[int(element)] += f"={_number(known[index])}"
    return names, labels, titles


def _is_index(context: Context, number: int) -> bool:
    """Return whether the elements of an operand are indices, which the result does not contain."""
    return "indices" in operand_name(context.op, number)


def _number(value: object) -> str:
    return f"{float(value):g}"  # type: ignore[arg-type]  # an element of an array of numbers


def _letters(count: int) -> list[str]:
    if count <= len(ascii_lowercase):
        return list(ascii_lowercase[:count])
    return [f"{ascii_lowercase[i // 26]}{ascii_lowercase[i % 26]}_" for i in range(count)]


def _every(outcome: Outcome) -> list[Value]:
    return [value for values in outcome.results for value in values.reshape(-1).tolist()]


def _colours(
    outcome: Outcome, operands: Sequence[Numbers], moves: bool
) -> tuple[dict[int, float], list[float | None] | None]:
    """Return the colours of operand elements, and those of results if each element has one result.

    Elements that are used everywhere, such as an init value, have no colour.
    """
    every = _every(outcome)
    scalars = {int(array) for array in operands if not array.ndim}
    if moves:
        used = sorted({term[0] for value in every for term in value} - scalars)
        return {number: place / max(len(used), 1) for place, number in enumerate(used)}, None
    # Replicas may have equal results, which have one colour.
    distinct = {value: {n for term in value for n in term} - scalars for value in every}
    uses = Counter(number for own in distinct.values() for number in own)
    if any(count > 1 for count in uses.values()):
        return {}, None
    coloured = [value for value, own in distinct.items() if own]
    of_value = {value: place / len(coloured) for place, value in enumerate(coloured)}
    colours = {n: colour for value, colour in of_value.items() for n in distinct[value]}
    return colours, [of_value.get(value) for value in every]


def _focus(outcome: Outcome) -> tuple[int, Value] | None:
    """Return the place and the value of the first element with the most terms."""
    every = list(enumerate(_every(outcome)))
    return max(every, key=lambda pair: (len(pair[1]), -pair[0]), default=None)


def _formula(value: Value, labels: Mapping[int, str], join: Join) -> str:
    if not value:
        return "0"
    return join.text(["·".join(labels[number] for number in term) for term in value])


def _result_title(op: XlaOp, number: int, count: int, context: Context, is_collective: bool) -> str:
    arrays = list(leaves(op.shape))
    shape = arrays[number % len(arrays)]
    name = f"result[{number % len(arrays)}]" if len(arrays) > 1 else "result"
    if is_collective:
        name += f" of replica {number // (count // len(context.numbers))}"
    return f"{name}  {shape}"


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
    colour = f' color="{_INK}"' if with_background else ""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{_FONT}" font-size="12" '
        f'text-anchor="middle" role="img" aria-label="{escape(scene.title)}"{colour}>'
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
        f'stroke="{ink}" stroke-opacity=".45"/>'
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
