"""Constants of many sizes and types, such as the weights of a network that is frozen in.

The size is the megabytes (2^20 bytes) of all constants together.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["CONSTANTS"]


class Kind(NamedTuple):
    """Constants of one type and size."""

    dtype: str
    dimensions: tuple[int, ...]
    number: int


def kinds(size: int) -> list[Kind]:
    """The constants of a graph: half of the bytes are in one array, the others in small ones."""
    return [
        Kind("float32", (128 * size, 1024), 1),
        Kind("int32", (256, 128), size),
        Kind("bfloat16", (256, 128), 2 * size),
        Kind("float16", (128, 128), 4 * size),
        Kind("uint8", (8192,), 16 * size),
        Kind("float32", (16,), 26 * size),
    ]


@lru_cache(maxsize=1)
def arrays(size: int) -> list[list[np.ndarray[Any, Any]]]:
    """For each kind its arrays: drawn once, and no part of what is measured.

    They are read-only, as arrays out of a mapped file are: nobody can change them after they have
    been recorded, so nobody needs a copy of them.
    """
    random = np.random.default_rng(0)
    found = []
    for dtype, dimensions, number in kinds(size):
        numbers = random.integers(0, 100, (number, *dimensions), np.uint8)
        numbers = numbers.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        numbers.flags.writeable = False
        found.append(list(numbers))
    return found


def arguments(size: int) -> list[Argument]:
    return [(f"x_{n}", kind.dtype, kind.dimensions) for n, kind in enumerate(kinds(size))]


def body(g: Any, size: int, *totals: Any) -> list[Any]:
    results = []
    for total, constants in zip(totals, arrays(size), strict=True):
        for value in constants:
            total = g.add(total, g.constant(value, total))
        results.append(total)
    return results


CONSTANTS = Graph(
    name="constants",
    title="constants",
    sizes=(1, 10, 100),
    default=100,
    arguments=arguments,
    body=body,
)
