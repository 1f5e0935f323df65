"""Split HLO and MLIR text into tokens for highlighting.

Pygments, which rich requires, has lexers for neither language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_TOKEN: Final = re.compile(
    r"""
      (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<comment>//[^\n]* | /\*(?:[^*]|\*(?!/))*\*/)
    | (?P<value>%[\w.$\-]+(?::\d+)?(?:\#\d+)?)
    | (?P<symbol>[@\#^][A-Za-z_][\w.$\-]*)
    | (?P<shape>\b(?:tensor|tuple|complex)<(?:[^<>\n]|<(?:[^<>\n]|<[^<>\n]*>)*>)*>
              | \b(?:pred|token|opaque|[sufc]\d\w*|bf16)\[[^\]\n]*\](?:\{[^}\n]*\})?)
    | (?P<keyword>\b(?:module|func|private|public|attributes|return|HloModule|ENTRY|ROOT|true|false
                     |dense|array)\b(?![.\-]))
    | (?P<op>\b(?:stablehlo|vhlo|chlo|mhlo|sdy|func)\.\w+
           | (?<=[\]})]\s)[a-z][\w\-]*(?=\())
    | (?P<number>(?<![\w.])-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:[eE][+\-]?\d+)?)\b)
    | [A-Za-z_][\w.\-]*
    """,
    re.VERBOSE,
)
"""Matches a token; a word that belongs to no group is matched too, so that none of its parts is."""


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """Iterate over pairs of a kind of token, "" for other text, and the text.

    The kinds are "string", "comment", "value", "symbol", "shape", "keyword", "op" and "number". The
    texts together are `text`.

    Example:
        >>> [pair for pair in tokens("%1 = f32[2]{0} add(%0)") if pair[0]]
        [('value', '%1'), ('shape', 'f32[2]{0}'), ('op', 'add'), ('value', '%0')]
    """
    end = 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup is not None:
            if end < match.start():
                yield "", text[end : match.start()]
            yield match.lastgroup, match[0]
            end = match.end()
    if end < len(text):
        yield "", text[end:]
