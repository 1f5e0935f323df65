"""Names that are told apart by a number."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["UniqueNames"]


class UniqueNames:
    """Hands out names, each once: "add", "add.1", "add.2", ...

    The last number is kept for each name, so that a thousand wishes for one name cost a thousand
    steps.

    Args:
        taken: names not to be given.
        separator: what stands before the number.

    Example:
        >>> from builder.support.unique_names import UniqueNames
        >>> names = UniqueNames(["main"])
        >>> names.claim("main"), names.claim("add"), names.claim("add")
        ('main.1', 'add', 'add.1')
    """

    __slots__ = ("numbers", "separator", "taken")

    def __init__(self, taken: Iterable[str] = (), separator: str = ".") -> None:
        self.taken: set[str] = set(taken)
        self.numbers: dict[str, int] = {}
        self.separator = separator

    def claim(self, wanted: str) -> str:
        """`wanted` if nobody has it yet; else with the next number that is free."""
        name = wanted
        if name in self.taken:
            number = self.numbers.get(wanted, 0)
            while name in self.taken:
                number += 1
                name = f"{wanted}{self.separator}{number}"
            self.numbers[wanted] = number
        self.taken.add(name)
        return name
