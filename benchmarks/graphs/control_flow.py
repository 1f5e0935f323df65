"""Small loops and conditionals, each with two functions: condition and body, or two branches.

The size is the number of loops and conditionals together. The functions close over one of five or
seven numbers. xlabuilder makes each of the 22 functions once, with `xb.computation`. The other APIs
get new closures for every loop and conditional, 10,000 in total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.graphs.graph import Argument, Graph

__all__ = ["CONTROL_FLOW"]


def arguments(size: int) -> list[Argument]:
    return [("x", "float32", (8,)), ("level", "float32", ()), ("start", "int32", ())]


class Makers(NamedTuple):
    """Factories of functions: the condition ``count < limit``, the body, and two branches."""

    under: Callable[[int], Any]
    step: Callable[[float], Any]
    scaled: Callable[[float], Any]
    shifted: Callable[[float], Any]


def makers(g: Any) -> Makers:
    def under(limit: int) -> Any:
        def condition(state: Sequence[Any]) -> Any:
            count, _ = state
            return g.lt_integer(count, limit)

        return condition

    def step(factor: float) -> Any:
        def body(state: Sequence[Any]) -> tuple[Any, Any]:
            count, value = state
            return g.add_integer(count, 1), g.tanh(g.mul_number(value, factor))

        return body

    def scaled(factor: float) -> Any:
        def above(value: Any) -> Any:
            return g.mul_number(value, factor)

        return above

    def shifted(factor: float) -> Any:
        def below(value: Any) -> Any:
            return g.tanh(g.add_number(value, factor))

        return below

    return Makers(g.shared(under), g.shared(step), g.shared(scaled), g.shared(shifted))


def repeated(g: Any, make: Makers, limit: int, factor: float, start: Any, x: Any) -> Any:
    """Apply ``x = tanh(factor * x)`` `limit` times."""
    _, result = g.while_(make.under(limit), make.step(factor), (start, x))
    return result


def chosen(g: Any, make: Makers, threshold: float, factor: float, level: Any, x: Any) -> Any:
    """Return ``factor * x`` if the level is above the threshold, else ``tanh(factor + x)``."""
    is_above = g.gt_number(level, threshold)
    return g.conditional(is_above, make.scaled(factor), make.shifted(factor), x)


def body(g: Any, size: int, x: Any, level: Any, start: Any) -> list[Any]:
    make = makers(g)
    for number in range(size):
        factor = 1 + number % 10 / 100
        if number % 2 == 0:
            x = repeated(g, make, number % 7 + 1, factor, start, x)
        else:
            x = chosen(g, make, number % 5 / 5, factor, level, x)
    return [x]


CONTROL_FLOW = Graph(
    name="control_flow",
    title="loops and branches with 10,000 functions",
    sizes=(6, 60, 600, 5_000),
    default=5_000,
    arguments=arguments,
    body=body,
)
