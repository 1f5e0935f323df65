"""Unique names: a number is appended to a repeated name."""

from __future__ import annotations

from collections.abc import Iterable


class UniqueNames:
    """Returns each name once: "add", "add.1", "add.2", ...

    The last number of each name is stored, so n claims of one name take n steps.

    Args:
        taken: names that are never returned.
        separator: the text before the number.

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

    def claim(self, preferred: str) -> str:
        """Return `preferred`, with the next free number appended if the name is taken."""
        name = preferred
        if name in self.taken:
            number = self.numbers.get(preferred, 0)
            while name in self.taken:
                number += 1
                name = f"{preferred}{self.separator}{number}"
            self.numbers[preferred] = number
        self.taken.add(name)
        return name
