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
"""A number of characters, greater than the length of each dialect name in StableHLO modules."""

_MAX_PREFIXES: Final = 4096
"""The maximum number of different words before dots (numbers have dots too). With more words, the
search for operation names would not be faster than MLIR."""

_LAST_WORD: Final = r"(?a:\w*$)"


def operation_names(data: bytes) -> set[str] | None:
    """Return a superset of the full names of the operations in bytecode.

    Return None if the bytecode is damaged, or of a version before `NAMES_HAVE_FLAGS`.
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
    """Return the words before the dots of MLIR text; they include the dialects of all operations.

    A full operation name has its dialect before a dot, with or without quotes. Operation names
    without a dialect occur only inside operations of the same dialect, or, for operations of `func`
    and `builtin`, inside functions.

    Return None if the text has escapes in strings, a word of `_PREFIX_LENGTH` characters or more,
    or more than `_MAX_PREFIXES` words before dots.
    """
    if "\\" in text:
        return None
    ends = {piece[-_PREFIX_LENGTH:] for piece in text.split(".")[:-1]}
    if len(ends) > _MAX_PREFIXES:
        return None
    names = {match[0] for end in ends if (match := re.search(_LAST_WORD, end)) is not None}
    return None if any(len(name) == _PREFIX_LENGTH for name in names) else names
