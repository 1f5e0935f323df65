"""What a graph is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Argument", "Graph"]

Argument = tuple[str, str, tuple[int, ...]]
"""The name of an argument, the name of its NumPy dtype, its dimensions."""


@dataclass(frozen=True)
class Graph:
    """A function of arrays, to be written down in any of the languages.

    Attributes:
        name: a word for the command line.
        title: what plots and tables say.
        sizes: sizes to measure, ascending; what they count is told in the graph's module.
        default: the size that stands for the graph where it is measured at one alone.
        arguments: for a size, the arguments.
        body: called with a module of `benchmarks.languages`, the size and a value for each
            argument; gives the results.
    """

    name: str
    title: str
    sizes: tuple[int, ...]
    default: int
    arguments: Callable[[int], list[Argument]]
    body: Callable[..., Sequence[Any]]
