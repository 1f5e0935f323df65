"""Names: unique ones, and suggestions for misspelled names and for attributes that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from builder.support.imports import extension


class UniqueNames:
    """Returns each name once: "add", "add.1", "add.2", ...

    The last number of each name is stored, so n claims of one name take n steps.

    Args:
        taken: names that are never returned.
        separator: the text before the number.

    Example:
        >>> from builder.support.names import UniqueNames
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


def by_name(table: Mapping[str, str]) -> dict[str, str]:
    """Return a table with an entry for each name; the keys of `table` are names in one string.

    Example:
        >>> by_name({"cos sin": "angle"})
        {'cos': 'angle', 'sin': 'angle'}
    """
    return {name: text for names, text in table.items() for name in names.split()}


def did_you_mean(name: str, spellings: Mapping[str, str], cutoff: float) -> str:
    """Return the fix that suggests similar names, or "" if there are none.

    Args:
        name: the unknown name.
        spellings: the text to suggest for each known name.
        cutoff: the minimum similarity of a suggested name, between 0 and 1.

    Example:
        >>> did_you_mean("ad", {"add": "xb.add", "sub": "xb.sub"}, 0.6)
        'did you mean xb.add?'
    """
    from difflib import get_close_matches  # lazy: only errors need it

    matches = [name] if name in spellings else get_close_matches(name, spellings, 3, cutoff)
    texts = dict.fromkeys(spellings[match] for match in matches)
    return f"did you mean {' or '.join(texts)}?" if texts else ""


class ExplainsAttributes:
    """Base class of objects whose errors for names of other libraries contain what to write.

    `builder.unknown_names` has the names. Python calls `__getattr__` only for attributes that do
    not exist. On Python 3.11 a class with this method also reads the other attributes more slowly.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers would accept every attribute

        def __getattr__(self, name):
            # Names with an underscore are looked up by protocols, such as `_repr_png_`.
            error = None
            if not name.startswith("_"):
                error = extension("builder.unknown_names", "missing_attribute", type(self), name)
            if error is None:
                return object.__getattribute__(self, name)  # raises the error of this attribute
            raise error
