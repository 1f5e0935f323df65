"""Place the nodes of the outline of a computation in layers, and render it as SVG.

The SVG has no style sheet, no ids and no scripts, because these would affect other pictures in the
same page. Lines and labels have the colour of the text around the picture.

Graphviz places the nodes, from operands to users. pygraphviz, which the extra `draw` installs, has
it in its wheels, so the program `dot` need not be installed. Graphviz gets numbers and no labels,
so that it loads no fonts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from threading import Lock
from typing import Any, Final, NamedTuple

from builder.graph.computation import XlaComputation
from builder.graph.registry import OPERATIONS
from builder.graph.xla_op import XlaOp, is_constant, is_parameter
from builder.inspection.pictures.outline import Child, Group, level_of, outline_of
from builder.inspection.rendering import printable
from builder.inspection.table import constant_text, count_text, source_hover
from builder.support.imports import missing_requirement

_POINTS: Final = 72
"""The points of an inch: Graphviz has inches, and pictures have a pixel for each point."""

_HEAD: Final = (
    # The limits bound the time for levels with many edges.
    "digraph{graph[nodesep=.3,ranksep=.42,nslimit=4,nslimit1=4];"
    'node[shape=box,fixedsize=true,label=""];edge[arrowhead=none,tailport=s,headport=n];'
)

_LOCK: Final = Lock()
"""Graphviz has global state."""


class Size(NamedTuple):
    """The size of a node."""

    width: float
    height: float


class Layout(NamedTuple):
    """The places of nodes.

    Attributes:
        corners: the left top corner of each node.
        routes: for each edge the points of its Bezier curves: the start, and three points for each
            curve, the last one its end.
        width, height: the size of the picture.
    """

    corners: list[tuple[float, float]]
    routes: dict[tuple[int, int], list[tuple[float, float]]]
    width: float
    height: float


def layout_of(sizes: Sequence[Size], edges: Iterable[tuple[int, int]]) -> Layout:
    """Return the places of nodes.

    Args:
        sizes: the sizes of the nodes.
        edges: pairs of different nodes. In a cycle, some edges are drawn upward.

    Raises:
        ModuleNotFoundError: pygraphviz is not installed.
    """
    if not sizes:
        return Layout([], {}, 0.0, 0.0)
    lines = [_HEAD]
    for number, (width, height) in enumerate(sizes):
        lines.append(f"{number}[width={width / _POINTS:.5f},height={height / _POINTS:.5f}];")
    lines += [f"{begin}->{end};" for begin, end in edges]
    graph = _graphviz().AGraph(string="\n".join([*lines, "}"]))
    with _LOCK:
        plain = graph.draw(format="plain", prog="dot").decode()
    corners = [(0.0, 0.0)] * len(sizes)
    routes = {}
    total_width = total_height = 0.0
    # Long lines are not broken in this format.
    for kind, *fields in map(str.split, plain.splitlines()):
        match kind:
            case "graph":
                _, total_width, total_height = (_POINTS * float(field) for field in fields)
            case "node":
                number, (x, y) = int(fields[0]), _points(fields[1:3], total_height)[0]
                size = sizes[number]
                corners[number] = max(x - size.width / 2, 0.0), max(y - size.height / 2, 0.0)
            case "edge":
                begin, end, count = map(int, fields[:3])
                routes[begin, end] = _points(fields[3 : 3 + 2 * count], total_height)
    boxes = list(zip(corners, sizes, strict=True))
    total_width = max(total_width, *(x + size.width for (x, _), size in boxes))
    total_height = max(total_height, *(y + size.height for (_, y), size in boxes))
    return Layout(corners, routes, total_width, total_height)


def _points(fields: Sequence[str], height: float) -> list[tuple[float, float]]:
    """Return points whose y axis points down."""
    numbers = [_POINTS * float(field) for field in fields]
    return [(x, height - y) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]


def _graphviz() -> Any:
    try:
        # The other codes are for type checkers that run without it.
        import pygraphviz  # type: ignore[import-untyped,import-not-found,unused-ignore]  # no stubs
    except ModuleNotFoundError as error:
        missing = missing_requirement(error, "draw")
        if missing is error:
            raise
        reason = f"{missing}, or use draw().dot() with another program"
        raise ModuleNotFoundError(reason, name=missing.name) from None
    return pygraphviz


FAMILY_COLOURS: Final[Mapping[str, str]] = {
    "elementwise": "#cfe3f7",
    "contraction": "#f7b89c",
    "reduction": "#f5dc8a",
    "reshaping": "#d9e8c4",
    "indexing": "#b5dcc4",
    "dynamic": "#b5dcc4",
    "control_flow": "#e2d3f0",
    "collectives": "#f3bdd6",
    "host": "#f0aab0",
    "sharding": "#f3bdd6",
    "linalg": "#f7c9a8",
    "normalization": "#f7d8a8",
    "random": "#c9d3dc",
}
"""The fill of ops of each family, readable under black text."""

ARGUMENTS: Final = ("constant", "parameter")
"""The opcodes of ops that are white with round corners."""

_WHITE: Final = "#ffffff"
_GROUP: Final = "#eceff2"
_INK: Final = "#111111"

_FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
_CHARACTER: Final = 7.3
_SMALL: Final = 6.1
_HEIGHT: Final = 26.0
_MARGIN: Final = 12.0
_TITLE: Final = 20.0
_LABEL: Final = 14.0
_MAX_TEXT: Final = 48
_MAX_DEPTH: Final = 8

_families: dict[str, str] = {}


def family_of(opcode: str) -> str:
    """Return the family of an opcode; see `OpInfo.family`."""
    if not _families:
        for info in OPERATIONS.values():
            _families.setdefault(info.schema.opcode, info.family)
    return _families.get(opcode, "")


def colour_of(opcode: str) -> str:
    """Return the colour that fills the boxes of ops with this opcode."""
    return _WHITE if opcode in ARGUMENTS else FAMILY_COLOURS.get(family_of(opcode), _GROUP)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """SVG elements in a rectangle whose top left corner is at (0, 0)."""

    body: list[str]
    size: Size


def computation_svg(
    computation: XlaComputation, root: Group, limit: int, *, with_background: bool
) -> str:
    """Return a picture of a group of a computation's ops as SVG.

    Args:
        computation: the computation.
        root: the group: the outline of the computation, or a part of it.
        limit: the number of nodes up to which groups and applied computations are drawn open.
        with_background: whether the picture has a white background, as for a file.
    """
    opened = _opened(root, limit)
    drawing = _level(computation, root, opened)
    coloured = (op for op in _drawn(root, opened) if op.opcode not in ARGUMENTS)
    families = sorted({family_of(op.opcode) for op in coloured} & {*FAMILY_COLOURS})
    drawing = _stacked([drawing, _legend(families)])
    width, height = (round(length + 2 * _MARGIN) for length in drawing.size)
    colour = f' color="{_INK}"' if with_background else ""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{_FONT}" font-size="12" '
        f'text-anchor="middle" role="img" aria-label="{_escaped(computation.name)}"{colour}>'
    )
    background = [f'<rect width="{width}" height="{height}" fill="#fff"/>'] * with_background
    return "\n".join([head, *background, *_moved(drawing, _MARGIN, _MARGIN), "</svg>"])


def shown_computations(op: XlaOp) -> list[tuple[str, XlaComputation]]:
    """Return the computations that an op applies, with their roles.

    None if each of them has a single op, as most reducers, because the op's label names them.
    """
    found = []
    for role, value in op.attributes.items():
        several = value if isinstance(value, tuple) else (value,)
        for number, applied in enumerate(several):
            if isinstance(applied, XlaComputation):
                found.append((f"{role} {number}" if len(several) > 1 else role, applied))
    return [] if all(_is_one_op(applied) for _, applied in found) else found


def _is_one_op(computation: XlaComputation) -> bool:
    inner = [op for op in computation.ops if not is_parameter(op)]
    return len(inner) == 1 and inner[0] is computation.root


Opened = Mapping[int, "list[tuple[str, XlaComputation, Group]] | None"]
"""What is drawn open, by the id of the object: None for a group; for an op the computations that it
applies, with their roles and outlines."""


def _opened(root: Group, limit: int) -> Opened:
    """Return the groups and ops that are drawn open, the outer ones first."""
    opened: dict[int, list[tuple[str, XlaComputation, Group]] | None] = {}
    remaining = limit - len(root.children)
    pending: deque[tuple[Child, int]] = deque((child, 1) for child in root.children)
    while pending:
        child, depth = pending.popleft()
        if depth > _MAX_DEPTH:
            continue
        if isinstance(child, Group):
            inside = [child]
            parts = None
        else:
            applied = shown_computations(child) if child.attributes else []
            if not applied or sum(len(c.ops) for _, c in applied) > max(remaining, 0):
                continue
            parts = [(role, c, outline_of(c)) for role, c in applied]
            inside = [group for _, _, group in parts]
        cost = sum(len(group.children) for group in inside)
        if cost <= remaining:
            remaining -= cost
            opened[id(child)] = parts
            pending += ((inner, depth + 1) for group in inside for inner in group.children)
    return opened


def _drawn(group: Group, opened: Opened) -> Iterable[XlaOp]:
    """Iterate over the ops that are drawn."""
    for child in group.children:
        if isinstance(child, Group):
            if id(child) in opened:
                yield from _drawn(child, opened)
        else:
            yield child
            for _, _, inner in opened.get(id(child)) or ():
                yield from _drawn(inner, opened)


def _level(computation: XlaComputation, group: Group, opened: Opened) -> _Drawing:
    """Draw the children of a group, and the values that pass between them."""
    level = level_of(group)
    nodes = [
        _port(op, level.more_ports if number == len(level.ports) - 1 else 0)
        for number, op in enumerate(level.ports)
    ]
    nodes += [_node(computation, child, opened) for child in level.children]
    sent: dict[int, dict[int, XlaOp]] = {}
    for (begin, _), ops in level.edges.items():
        sent.setdefault(begin, {}).update({op.id: op for op in ops})
    labels = {number: _values_text(list(ops.values())) for number, ops in sent.items()}
    sizes = [_with_label(node.size, labels.get(number, "")) for number, node in enumerate(nodes)]
    layout = layout_of(sizes, level.edges)
    body: list[str] = []
    body += [_curve(layout.routes[edge]) for edge in level.edges]
    for number, (node, size, (x, y)) in enumerate(zip(nodes, sizes, layout.corners, strict=True)):
        body += _moved(node, x + (size.width - node.size.width) / 2, y)
        if labels.get(number):
            middle = x + size.width / 2
            bottom = y + size.height - 3
            body.append(_text(middle, bottom, labels[number], size=10, opacity=0.75))
    return _Drawing(body, Size(layout.width, layout.height))


def _with_label(size: Size, label: str) -> Size:
    """Return the size of a node with the label below it."""
    if not label:
        return size
    return Size(max(size.width, len(label) * _SMALL + 8), size.height + _LABEL)


def _values_text(ops: list[XlaOp]) -> str:
    shapes = {str(op.shape) for op in ops}
    if len(ops) == 1:
        return _short(shapes.pop())
    return f"{len(ops):,} values" + (f" {_short(shapes.pop())}" if len(shapes) == 1 else "")


def _node(computation: XlaComputation, child: Child, opened: Opened) -> _Drawing:
    if isinstance(child, Group):
        if id(child) in opened:
            return _frame(child.name, [_level(computation, child, opened)])
        lines = [child.name, count_text(child.count)]
        return _box(lines, _GROUP, child.summary(), stacked=True)
    label = _label(child)
    applied = opened.get(id(child))
    if applied is not None:
        parts = [_frame(role, [_level(c, group, opened)]) for role, c, group in applied]
        return _frame(label, parts, colour_of(child.opcode))
    lines = [label]
    if is_constant(child):
        lines = [_constant(child)]
    folded = shown_computations(child) if child.attributes else []
    if folded:
        lines.append(", ".join(f"{role}: {count_text(len(c.ops))}" for role, c in folded))
    is_argument = child.opcode in ARGUMENTS
    hover = f"{child!r}\n{source_hover(child)}".rstrip()
    return _box(
        lines,
        colour_of(child.opcode),
        hover,
        radius=13 if is_argument else 4,
        is_dashed=is_constant(child),
        is_result=child is computation.root,
        stacked=bool(folded),
    )


def _constant(op: XlaOp) -> str:
    return _short(constant_text(op.attributes["value"], op.shape.element_type))


def _label(op: XlaOp) -> str:
    name = op.name
    if is_parameter(op):
        return _short(name or f"parameter {op.attributes['number']}")
    applied = [] if shown_computations(op) else [c.root.opcode for c in op.called_computations]
    text = f"{op.opcode} ({', '.join(applied)})" if applied else op.opcode
    own = "" if name is None else name.rpartition("/")[2]
    return _short(f"{text} {own}" if own and own != op.opcode else text)


def _port(op: XlaOp, more: int) -> _Drawing:
    """Draw a value from outside of the group."""
    text = f"%{op.id} {_label(op)}"
    if more > 1:
        text = f"{count_text(more, 'value')} from outside"
    elif is_constant(op):
        text = _constant(op)
    return _box([_short(text)], "none", repr(op), is_dashed=True, radius=13)


def _box(
    lines: list[str],
    fill: str,
    hover: str,
    *,
    radius: int = 4,
    is_dashed: bool = False,
    is_result: bool = False,
    stacked: bool = False,
) -> _Drawing:
    """Draw a node; `stacked` for one that stands for several."""
    lines = [_short(line) for line in lines]
    width = max(len(line) for line in lines) * _CHARACTER + 18
    height = _HEIGHT + 15 * (len(lines) - 1)
    ink = "currentColor" if fill == "none" else _INK
    faint = f'stroke="{ink}" stroke-opacity=".45"'
    border = f'stroke="{ink}" stroke-width="2.2"' if is_result else faint
    dashes = ' stroke-dasharray="4 3"' if is_dashed else ""
    size = f'width="{width:.0f}" height="{height:.0f}" rx="{radius}"'
    title = "&#10;".join(_escaped(line) for line in hover.split("\n"))
    body = [f"<g><title>{title}</title>"]
    if stacked:
        body.append(f'<rect x="4" y="4" {size} fill="{fill}" {faint}/>')
    if is_result or (is_dashed and fill != "none"):
        # The border is inside of the box, because a dark page hides the ink around it.
        inside = f'x="2" y="2" width="{width - 4:.0f}" height="{height - 4:.0f}" rx="{radius - 2}"'
        body.append(f'<rect {size} fill="{fill}"/>')
        body.append(f'<rect {inside} fill="none" {border}{dashes}/>')
    else:
        body.append(f'<rect {size} fill="{fill}" {faint}{dashes}/>')
    for number, line in enumerate(lines):
        body.append(_text(width / 2, 17 + 15 * number, line, fill=ink))
    extra = 4 if stacked else 0
    return _Drawing([*body, "</g>"], Size(width + extra, height + extra))


def _frame(title: str, parts: list[_Drawing], colour: str = "") -> _Drawing:
    """Draw a frame around drawings next to each other."""
    title = _short(title)
    body, x, height = [], _MARGIN, 0.0
    for part in parts:
        body += _moved(part, x, _TITLE + _MARGIN)
        x += part.size.width + _MARGIN
        height = max(height, part.size.height)
    width = max(x, len(title) * _CHARACTER + 2 * _MARGIN)
    height += _TITLE + 2 * _MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}" rx="6"'
    bar = ""
    if colour:
        bar = f'<rect width="{width:.0f}" height="{_TITLE + 4:.0f}" rx="6" fill="{colour}"/>'
    rect = (
        f'<rect {size} fill="currentColor" fill-opacity=".04" stroke="currentColor" '
        'stroke-opacity=".4"/>'
    )
    ink = _INK if colour else "currentColor"
    heading = _text(_MARGIN, 16, title, anchor="start", fill=ink)
    return _Drawing([rect, bar, heading, *body], Size(width, height))


def _legend(families: list[str]) -> _Drawing:
    body, x = [], 0.0
    for family in families:
        name = family.replace("_", " ")
        rect = f'<rect x="{x:.0f}" y="8" width="12" height="12" rx="2"'
        body.append(f'{rect} fill="{FAMILY_COLOURS[family]}" stroke="{_INK}" stroke-opacity=".4"/>')
        body.append(_text(x + 18, 18, name, size=11, anchor="start"))
        x += 18 + len(name) * 6.7 + 16
    return _Drawing(body, Size(x, 24 if families else 0))


def _curve(points: list[tuple[float, float]]) -> str:
    """Draw Bezier curves with an arrow at their end."""
    (x, y), *others = points
    curves = " ".join(f"{x:.1f} {y:.1f}" for x, y in others)
    end_x, end_y = others[-1]
    up = end_y < y
    arrow = f"M{end_x:.1f} {end_y:.1f}l-4 {7 if up else -7}h8z"
    return (
        f'<path d="M{x:.1f} {y:.1f}C{curves}" fill="none" stroke="currentColor" '
        'stroke-opacity=".5"/>'
        f'<path d="{arrow}" fill="currentColor" fill-opacity=".6"/>'
    )


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
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{fill}"{attributes}>{_escaped(text)}</text>'


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


def _escaped(text: str) -> str:
    return escape(printable(text))


def _moved(drawing: _Drawing, x: float, y: float) -> list[str]:
    return [f'<g transform="translate({x:.0f} {y:.0f})">', *drawing.body, "</g>"]


def _stacked(drawings: list[_Drawing]) -> _Drawing:
    """Arrange drawings below each other."""
    body: list[str] = []
    height = 0.0
    for drawing in drawings:
        body += _moved(drawing, 0, height)
        height += drawing.size.height
    return _Drawing(body, Size(max(drawing.size.width for drawing in drawings), height))
