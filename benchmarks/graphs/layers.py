"""A stack of layers without products: biases, normalizations and scales, mostly broadcast.

The size is the number of layers. Each layer has its own bias, scale and offset.
"""

from __future__ import annotations

from typing import Any

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["LAYERS"]

ROWS, FEATURES = 64, 256
EPSILON = 1e-5


def arguments(size: int) -> list[Argument]:
    vectors = [
        (f"{name}_{layer}", "float32", (FEATURES,))
        for layer in range(size)
        for name in ("bias", "scale", "offset")
    ]
    return [("x", "float32", (ROWS, FEATURES)), *vectors]


def body(g: Any, size: int, x: Any, *vectors: Any) -> list[Any]:
    for layer in range(size):
        bias, scale, offset = vectors[3 * layer : 3 * layer + 3]
        x = g.add_along(x, bias, (1,))
        mean = g.mul_number(g.reduce_sum(x, (1,)), 1 / FEATURES)
        centred = g.sub_along(x, mean, (0,))
        variance = g.mul_number(g.reduce_sum(g.mul(centred, centred), (1,)), 1 / FEATURES)
        inverse = g.rsqrt(g.add_number(variance, EPSILON))
        normal = g.mul_along(centred, inverse, (0,))
        y = g.add_along(g.mul_along(normal, scale, (1,)), offset, (1,))
        x = g.add(x, g.max_number(y, 0.0))
    return [x]


LAYERS = Graph(
    name="layers",
    title="broadcast-heavy layers",
    sizes=(1, 10, 100, 312, 1_000, 10_000),
    default=312,
    arguments=arguments,
    body=body,
)
