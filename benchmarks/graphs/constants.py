"""Constants of many sizes and element types, such as the weights of a frozen network.

The size is that of all constants together, in megabytes (2^20 bytes).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["CONSTANTS"]


class Kind(NamedTuple):
    """Constants of one element type and size."""

    dtype: str
    dimensions: tuple[int, ...]
    number: int


def kinds(size: int) -> list[Kind]:
    """Return the kinds of constants. One array has half of the bytes; the others are small."""
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
    """Return the arrays of each kind. They are made once, outside of measurements.

    They are read-only, as arrays of a mapped file are, so that recording them needs no copy.
    """
    random = np.random.default_rng(0)
    arrays_of_kinds = []
    for dtype, dimensions, number in kinds(size):
        numbers = random.integers(0, 100, (number, *dimensions), np.uint8)
        numbers = numbers.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        numbers.flags.writeable = False
        arrays_of_kinds.append(list(numbers))
    return arrays_of_kinds


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
