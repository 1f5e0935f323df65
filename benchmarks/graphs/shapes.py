"""Layers in which every operation has a new shape, also compared with earlier graphs.

No cache of shapes hits: each shape is inferred, interned, written and read for the first time. The
size is the number of layers. Each layer is one row longer than the one before, and each call of
`arguments` starts a graph of another width.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["SHAPES", "graph_of"]

DEPTH = 4


def body(g: Any, size: int, x: Any, row: Any) -> list[Any]:
    for _ in range(size):
        x = g.concatenate([x, row], 0)
        y = g.tanh(g.add(x, x))
        scaled = g.mul_along(y, g.reduce_sum(y, (2,)), (0, 1))
        turned = g.exp(g.neg(g.transpose(scaled, (0, 2, 1))))
        x = g.max(x, g.transpose(turned, (0, 2, 1)))
    return [x]


def graph_of(widths: Iterator[int]) -> Graph:
    """Return the graph. Each call of `arguments` uses the next width."""

    def arguments(size: int) -> list[Argument]:
        width = next(widths)
        return [(name, "float32", (1, width, DEPTH)) for name in ("x", "row")]

    return Graph(
        name="shapes",
        title="a new shape for each op",
        sizes=(1, 10, 100, 834, 4_000),
        default=834,
        arguments=arguments,
        body=body,
    )


# With a width of DEPTH, an array and its transpose would have the same shape.
SHAPES = graph_of(count(DEPTH + 1))
