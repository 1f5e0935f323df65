"""Place the nodes of a graph in layers, from operands to users, with Graphviz.

pygraphviz has Graphviz in its wheels, so the program `dot` need not be installed. Graphviz gets
numbers and no labels, so that it loads no fonts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

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
        ImportError: pygraphviz is not installed.
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
        # No stubs; the other codes are for type checkers that run without it.
        import pygraphviz  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError(
            f"draw requires pygraphviz, which can't be imported: {error}\n"
            f"fix: run `pip install pygraphviz`, or use draw().dot() with another program"
        ) from error
    return pygraphviz
