"""Tuples opened into their leaves and put together again.

The module has no tuples: a tuple value is a list of SSA values, nested as its shape is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from builder.types.shape import Shape, TupleShape

__all__ = ["flatten", "leaf_paths", "unflatten"]


def flatten(values: Sequence[Any]) -> list[Any]:
    """The SSA values in `values`, nested lists opened, left to right."""
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
    """The next values arranged as `shape` is nested, in lists."""
    if not isinstance(shape, TupleShape):
        return next(values)
    whole: list[Any] = []
    stack: list[tuple[list[Any], Iterator[Shape]]] = [(whole, iter(shape.elements))]
    while stack:
        inside, remaining = stack[-1]
        for element in remaining:
            if isinstance(element, TupleShape):
                deeper: list[Any] = []
                inside.append(deeper)
                stack.append((deeper, iter(element.elements)))
                break
            inside.append(next(values))
        else:
            stack.pop()
    return whole


def leaf_paths(shape: Shape) -> list[str]:
    """For each leaf its place in the nested tuple: "[0][1]"; one empty text for an array."""
    found: list[str] = []
    stack: list[tuple[str, Shape]] = [("", shape)]
    while stack:
        path, part = stack.pop()
        if isinstance(part, TupleShape):
            inner = [(f"{path}[{i}]", e) for i, e in enumerate(part.elements)]
            stack.extend(reversed(inner))
        else:
            found.append(path)
    return found
