"""Decorators that enter functions into tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def registrar(table: dict[str, F]) -> Callable[..., Callable[[F], F]]:
    """Return a decorator ``(*names)`` that enters a function into `table` under these names."""

    def under(*names: str) -> Callable[[F], F]:
        def enter(function: F) -> F:
            table.update(dict.fromkeys(names, function))
            return function

        return enter

    return under
