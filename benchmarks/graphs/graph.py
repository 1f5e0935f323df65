"""The definition of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Argument", "Graph"]

Argument = tuple[str, str, tuple[int, ...]]
"""The name of an argument, the name of its NumPy dtype, and its dimensions."""


@dataclass(frozen=True)
class Graph:
    """A function of arrays that can be recorded with any of the APIs.

    Attributes:
        name: its name on the command line.
        title: its name in plots and tables.
        sizes: the sizes to measure, ascending. The graph's module documents their meaning.
        default: the size at which the graph is measured if only one is.
        arguments: returns the arguments for a size.
        body: called with a module of `benchmarks.languages`, the size and a value for each
            argument; returns the results.
    """

    name: str
    title: str
    sizes: tuple[int, ...]
    default: int
    arguments: Callable[[int], list[Argument]]
    body: Callable[..., Sequence[Any]]
