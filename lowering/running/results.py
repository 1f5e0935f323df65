"""The results of a compiled computation, nested as its root is."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape

__all__ = ["result_packer"]


def result_packer(shape: Shape) -> Callable[[list[Any]], Any]:
    """A function from the flat results to what the caller gets."""
    if isinstance(shape, ArrayShape):
        return _first
    if isinstance(shape, TokenShape):
        return _nothing
    if all(isinstance(e, ArrayShape) for e in shape.elements):
        return tuple
    # In the order of their ends: each entry takes the last `count` values, or hides a token.
    steps: list[int] = []
    stack: list[Shape | int] = [shape]
    while stack:
        top = stack.pop()
        if isinstance(top, int):
            steps.append(top)
        elif isinstance(top, TupleShape):
            stack.append(len(top.elements))
            stack.extend(reversed(top.elements))
        else:
            steps.append(_TAKE if isinstance(top, ArrayShape) else _HIDE)

    def pack(results: list[Any]) -> Any:
        remaining = iter(results)
        done: list[Any] = []
        for step in steps:
            if step == _TAKE:
                done.append(next(remaining))
            elif step == _HIDE:
                next(remaining)
                done.append(None)
            else:
                start = len(done) - step
                done[start:] = [tuple(done[start:])]
        return done[0]

    return pack


_TAKE: Final = -1
_HIDE: Final = -2


_first: Final[Callable[[list[Any]], Any]] = itemgetter(0)


def _nothing(_results: list[Any]) -> None:
    return None
