"""The text of shardings: detect its dialect, and split and join the shardings of a tuple.

A GSPMD sharding is in braces, and a GSPMD sharding of a tuple in double braces. A Shardy sharding
begins with a "#": ``#sdy.sharding<@mesh, [{"x"}]>``, and for several values
``#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, [{}]>]>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from builder.types.text_reader import outside_quotes

_SHARDY: Final = "#sdy."
_SHARDING: Final = "#sdy.sharding"
_PER_VALUE: Final = "#sdy.sharding_per_value<["

_OPENING: Final = frozenset("{[<(")
_CLOSING: Final = frozenset("}]>)")


def is_shardy(text: str) -> bool:
    """Return True if a sharding is in the Shardy dialect, False if it is in the GSPMD dialect.

    Example:
        >>> is_shardy("{replicated}"), is_shardy('#sdy.sharding<@mesh, [{"x"}]>')
        (False, True)
    """
    return text.startswith(_SHARDY)


def leaf_texts(text: str, count: int) -> list[str]:
    """Return the text of the sharding of each array in a value with `count` arrays.

    If `text` is the sharding of a single array, it applies to each array.

    Example:
        >>> leaf_texts("{{replicated}, {devices=[2,1]<=[2]}}", 2)
        ['{replicated}', '{devices=[2,1]<=[2]}']
        >>> leaf_texts('#sdy.sharding_per_value<[<@mesh, [{"x"}]>]>', 1)
        ['#sdy.sharding<@mesh, [{"x"}]>']
    """
    if text.startswith(_PER_VALUE):
        texts = [_SHARDING + part for part in _split(text[len(_PER_VALUE) : -2])]
    elif text.replace(" ", "").startswith("{{"):
        texts = _split(text.strip()[1:-1])
    else:
        texts = [text]
    return texts * count if len(texts) == 1 else texts


def join_leaf_texts(texts: Sequence[str]) -> str:
    """Return the text of the sharding of a tuple of arrays, from the shardings of the arrays.

    Example:
        >>> join_leaf_texts(["{replicated}", "{manual}"])
        '{{replicated}, {manual}}'
        >>> join_leaf_texts(['#sdy.sharding<@mesh, [{"x"}]>', "#sdy.sharding<@mesh, []>"])
        '#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, []>]>'
    """
    if texts and is_shardy(texts[0]):
        return _PER_VALUE + ", ".join([text.removeprefix(_SHARDING) for text in texts]) + "]>"
    return "{" + ", ".join(texts) + "}"


def as_per_value(text: str) -> str:
    """Return the text of an operation's sharding attribute: Shardy requires a list of shardings.

    Example:
        >>> as_per_value('#sdy.sharding<@mesh, [{"x"}]>')
        '#sdy.sharding_per_value<[<@mesh, [{"x"}]>]>'
    """
    return join_leaf_texts([text]) if text.startswith(f"{_SHARDING}<") else text


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts: list[str] = []
    depth = begin = 0
    for position, character in outside_quotes(text):
        if character in _OPENING and not text.startswith("<=", position):
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[begin:position].strip())
            begin = position + 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts
