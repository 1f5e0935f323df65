"""A chain of elementwise operations on arrays of one shape, the cheapest operations to build.

The size is the number of operations.
"""

from __future__ import annotations

from typing import Any

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["CHAIN"]

ROUND = 4


def arguments(size: int) -> list[Argument]:
    return [(name, "float32", (128, 128)) for name in ("x", "y")]


def body(g: Any, size: int, x: Any, y: Any) -> list[Any]:
    add, mul, tanh, maximum = g.add, g.mul, g.tanh, g.max
    for _ in range(size // ROUND):
        z = add(x, y)
        z = mul(z, y)
        z = tanh(z)
        x = maximum(z, x)
    return [x]


CHAIN = Graph(
    name="chain",
    title="elementwise chain",
    sizes=(10, 100, 1_000, 10_000, 100_000, 1_000_000),
    default=10_000,
    arguments=arguments,
    body=body,
)
