"""Flatten nested tuples into their leaves and nest them again.

Modules have no tuples: a tuple value is a list of SSA values, nested like its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from builder.graph.aliasing import leaf_indices
from builder.types.shape import Shape, fold


def flatten(values: Sequence[Any]) -> list[Any]:
    """Return the items of nested lists, left to right."""
    flat: list[Any] = []
    stack: list[Iterator[Any]] = [iter(values)]
    while stack:
        for value in stack[-1]:
            if isinstance(value, list):
                stack.append(iter(value))
                break
            flat.append(value)
        else:
            stack.pop()
    return flat


def unflatten(shape: Shape, values: Iterator[Any]) -> Any:
    """Return the next value for each leaf of `shape`, in lists that are nested like `shape`."""
    return fold(shape, lambda _: next(values), list)


def leaf_paths(shape: Shape) -> list[str]:
    """Return the index of each leaf as text: "[0][1]" in a nested tuple, "" for an array."""
    return ["".join(f"[{i}]" for i in index) for index in leaf_indices(shape)]
