"""The names of the operations that a module in bytecode holds, without asking MLIR."""

from __future__ import annotations

from lowering.jaxlib_api import BYTECODE_MAGIC
from lowering.reading.bytecode_tables import (
    DIALECTS,
    NAMES_HAVE_FLAGS,
    STRINGS,
    dialects_and_operations,
    number_at,
    sections_of,
    strings_of,
)

__all__ = ["operation_names"]


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
        return set(dialects_and_operations(data, *places[DIALECTS], strings)[1])
    except (IndexError, KeyError, UnicodeDecodeError):
        return None
