"""The texts of shardings: which words they are in, and those of a tuple's arrays in one.

GSPMD's stand in braces, and those of a tuple's arrays in braces once more. Shardy's begin with a
"#": ``#sdy.sharding<@mesh, [{"x"}]>``, and of the several values of an operation
``#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, [{}]>]>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from builder.types.text_reader import outside_quotes

__all__ = ["as_per_value", "is_shardy", "join_leaf_texts", "leaf_texts"]

_SHARDY: Final = "#sdy."
_ONE: Final = "#sdy.sharding<"
_EACH: Final = "#sdy.sharding_per_value<["

_OPENING: Final = frozenset("{[<(")
_CLOSING: Final = frozenset("}]>)")


def is_shardy(text: str) -> bool:
    """Whether a sharding is in Shardy's words, and not in GSPMD's.

    Example:
        >>> is_shardy("{replicated}"), is_shardy('#sdy.sharding<@mesh, [{"x"}]>')
        (False, True)
    """
    return text.startswith(_SHARDY)


def leaf_texts(text: str, count: int) -> list[str]:
    """Of a value of this many arrays the sharding of each, one by one.

    A sharding that is not a tuple's is that of all of them.

    Example:
        >>> leaf_texts("{{replicated}, {devices=[2,1]<=[2]}}", 2)
        ['{replicated}', '{devices=[2,1]<=[2]}']
        >>> leaf_texts('#sdy.sharding_per_value<[<@mesh, [{"x"}]>]>', 1)
        ['#sdy.sharding<@mesh, [{"x"}]>']
    """
    if text.startswith(_EACH):
        inside = _split(text[len(_EACH) : -2])
        found = ["#sdy.sharding" + one for one in inside]
    elif text.replace(" ", "").startswith("{{"):
        found = _split(text.strip()[1:-1])
    else:
        return [text] * count
    return found * count if len(found) == 1 else found


def join_leaf_texts(texts: Sequence[str]) -> str:
    """The sharding of a tuple of arrays, of the shardings of these; of one array its own.

    Example:
        >>> join_leaf_texts(["{replicated}", "{manual}"])
        '{{replicated}, {manual}}'
        >>> join_leaf_texts(['#sdy.sharding<@mesh, [{"x"}]>', "#sdy.sharding<@mesh, []>"])
        '#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, []>]>'
    """
    if texts and is_shardy(texts[0]):
        return _EACH + ", ".join([text.removeprefix("#sdy.sharding") for text in texts]) + "]>"
    return "{" + ", ".join(texts) + "}"


def as_per_value(text: str) -> str:
    """A sharding as an operation says it: Shardy's of one value as that of its values.

    Example:
        >>> as_per_value('#sdy.sharding<@mesh, [{"x"}]>')
        '#sdy.sharding_per_value<[<@mesh, [{"x"}]>]>'
    """
    return join_leaf_texts([text]) if text.startswith(_ONE) else text


def _split(text: str) -> list[str]:
    """The parts between the commas that stand in no brackets and no quotes."""
    found: list[str] = []
    depth = begin = 0
    for position, sign in outside_quotes(text):
        if sign in _OPENING and not text.startswith("<=", position):
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif sign == "," and depth == 0:
            found.append(text[begin:position].strip())
            begin = position + 1
    last = text[begin:].strip()
    return [*found, last] if last else found
