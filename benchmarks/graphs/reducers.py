"""Sums of arrays of a few shapes: many reductions with the same reducer.

The size is the number of reductions.
"""

from __future__ import annotations

from typing import Any

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["REDUCERS"]

# The dimensions of an array, and those to sum over.
KINDS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((64, 32), (1,)),
    ((64, 32), (0,)),
    ((8, 16, 32), (0, 2)),
    ((1024,), (0,)),
)


def remaining(dimensions: tuple[int, ...], summed: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions of the sums."""
    return tuple(size for index, size in enumerate(dimensions) if index not in summed)


def arguments(size: int) -> list[Argument]:
    arrays = [(f"x_{n}", "float32", dimensions) for n, (dimensions, _) in enumerate(KINDS)]
    totals = [(f"total_{n}", "float32", remaining(*kind)) for n, kind in enumerate(KINDS)]
    return [*arrays, *totals]


def body(g: Any, size: int, *values: Any) -> list[Any]:
    arrays, totals = values[: len(KINDS)], list(values[len(KINDS) :])
    for number in range(size):
        kind = number % len(KINDS)
        total = g.reduce_sum(arrays[kind], KINDS[kind][1])
        totals[kind] = g.add(totals[kind], total)
    return totals


REDUCERS = Graph(
    name="reducers",
    title="add as a reducer, 10,000 times",
    sizes=(10, 100, 1_000, 3_333, 10_000),
    default=10_000,
    arguments=arguments,
    body=body,
)
