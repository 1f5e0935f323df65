"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches


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
