"""What operations a module holds, in bytecode or in text, without asking MLIR."""

from __future__ import annotations

import re
from typing import Final

from lowering.jaxlib_api.mlir import BYTECODE_MAGIC
from lowering.reading.bytecode_tables import (
    DIALECTS,
    NAMES_HAVE_FLAGS,
    STRINGS,
    number_at,
    operations_of,
    sections_of,
    strings_of,
)

__all__ = ["operation_names", "words_before_dots"]

_LONGEST: Final = 12
"""Longer than the names of all dialects that StableHLO modules consist of."""

_MOST: Final = 4096
"""Numbers have dots too: of a text with many there is nothing to be gained."""

_LAST_WORD: Final = r"(?a:\w*$)"


def operation_names(data: bytes) -> set[str] | None:
    """The full names that operations in bytecode may have: there are no others.

    None where that is not known: of older versions of the format, or of bytes that are damaged.
    """
    sections = sections_of(lambda at, size: data[at : at + size], len(data))
    places = {one.kind: (one.begin, one.begin + one.size) for one in sections or ()}
    try:
        version, _ = number_at(data, len(BYTECODE_MAGIC), len(data))
        if version < NAMES_HAVE_FLAGS:
            return None
        strings = strings_of(data, *places[STRINGS])
        return set(operations_of(data, *places[DIALECTS], strings))
    except (IndexError, KeyError, UnicodeDecodeError):
        return None


def words_before_dots(text: str) -> set[str] | None:
    """The words that stand before the dots of MLIR text, or the ends of these words.

    The dialect of an operation stands before a dot, whether the name is in quotes or not. The name
    alone may stand where that is inside an operation of the same dialect, or inside a function if
    it is one of `func`, or of `builtin`.

    None where that does not help: where quotes hold something escaped, words are long, or there are
    very many.
    """
    if "\\" in text:
        return None
    before = {piece[-_LONGEST:] for piece in text.split(".")[:-1]}
    if len(before) > _MOST:
        return None
    words = {found[0] for one in before if (found := re.search(_LAST_WORD, one)) is not None}
    return None if any(len(word) == _LONGEST for word in words) else words
