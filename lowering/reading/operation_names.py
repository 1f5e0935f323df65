"""Find the operation names in bytecode or text without MLIR."""

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

_PREFIX_LENGTH: Final = 12
"""Longer than the names of all dialects of StableHLO modules."""

_MAX_PREFIXES: Final = 4096
"""Numbers have dots too; in text with more dots than this, the check would not be faster."""

_LAST_WORD: Final = r"(?a:\w*$)"


def operation_names(data: bytes) -> set[str] | None:
    """Return a superset of the full names of the operations in bytecode.

    Return None if the names can't be determined: in older versions of the format and in damaged
    bytecode.
    """
    sections = sections_of(lambda at, size: data[at : at + size], len(data))
    places = {kind: (begin, begin + size) for kind, _, begin, size in sections or ()}
    try:
        version, _ = number_at(data, len(BYTECODE_MAGIC), len(data))
        if version < NAMES_HAVE_FLAGS:
            return None
        strings = strings_of(data, *places[STRINGS])
        return set(operations_of(data, *places[DIALECTS], strings))
    except (IndexError, KeyError, UnicodeDecodeError):
        return None


def prefixes_before_dots(text: str) -> set[str] | None:
    """Return the ends of the words before the dots of MLIR text.

    An operation name has its dialect before a dot, with or without quotes. Names without dialect
    occur inside operations of the same dialect, and for `func` and `builtin` inside functions.

    Return None if this is not sufficient: strings have escapes, words are long, or there are many.
    """
    if "\\" in text:
        return None
    ends = {piece[-_PREFIX_LENGTH:] for piece in text.split(".")[:-1]}
    if len(ends) > _MAX_PREFIXES:
        return None
    names = {match[0] for end in ends if (match := re.search(_LAST_WORD, end)) is not None}
    return None if any(len(name) == _PREFIX_LENGTH for name in names) else names
