"""Suggestions for misspelled names, and for attributes that an object does not have."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from builder.support.imports import extension


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
