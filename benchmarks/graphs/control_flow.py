"""Small loops and branches, each with functions of its own, as a user's closures are.

The size is the number of loops and branches together. Each has two functions: condition and body,
or what is done in the one case and in the other. xlabuilder records a function of which it can tell
that it gives what one of the same code gave before no second time: they close over one of five or
seven numbers, so that of the 10,000 it records 22.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["CONTROL_FLOW"]


def arguments(size: int) -> list[Argument]:
    return [("x", "float32", (8,)), ("level", "float32", ()), ("start", "int32", ())]


def repeated(g: Any, limit: int, factor: float, start: Any, x: Any) -> Any:
    """``x = tanh(factor * x)``, `limit` times."""

    def condition(state: Sequence[Any]) -> Any:
        count, _ = state
        return g.lt_integer(count, limit)

    def body(state: Sequence[Any]) -> tuple[Any, Any]:
        count, value = state
        return g.add_integer(count, 1), g.tanh(g.mul_number(value, factor))

    _, result = g.while_(condition, body, (start, x))
    return result


def chosen(g: Any, threshold: float, factor: float, level: Any, x: Any) -> Any:
    """``factor * x`` where the level is above the threshold, else ``tanh(factor + x)``."""

    def above(value: Any) -> Any:
        return g.mul_number(value, factor)

    def below(value: Any) -> Any:
        return g.tanh(g.add_number(value, factor))

    return g.conditional(g.gt_number(level, threshold), above, below, x)


def body(g: Any, size: int, x: Any, level: Any, start: Any) -> list[Any]:
    for number in range(size):
        factor = 1 + number % 10 / 100
        if number % 2 == 0:
            x = repeated(g, number % 7 + 1, factor, start, x)
        else:
            x = chosen(g, number % 5 / 5, factor, level, x)
    return [x]


CONTROL_FLOW = Graph(
    name="control_flow",
    title="loops and branches with 10,000 functions",
    sizes=(6, 60, 600, 5_000),
    default=5_000,
    arguments=arguments,
    body=body,
)
