"""The names of the operations that a module in bytecode holds, without asking MLIR.

MLIR Bytecode Format: Dialect Section. Names stand in groups of one dialect each; a dialect may have
several.
"""

from __future__ import annotations

from typing import Final

from lowering.jaxlib_api import BYTECODE_MAGIC
from lowering.reading.bytecode_tables import number_at, sections_of

__all__ = ["operation_names"]

_STRINGS: Final = 0
_DIALECTS: Final = 1

_WITH_FLAGS: Final = 5
"""The version of the format since which the section counts names and says of each of them whether
the writer knew the operation."""


def operation_names(data: bytes) -> set[str] | None:
    """The full names that operations in bytecode may have: there are no others.

    None where that is not known: of older versions of the format, or of bytes that are damaged.
    """
    sections = sections_of(lambda at, size: data[at : at + size], len(data))
    places = {one.kind: (one.begin, one.begin + one.size) for one in sections or ()}
    try:
        version, _ = number_at(data, len(BYTECODE_MAGIC), len(data))
        if version < _WITH_FLAGS:
            return None
        return _names(data, _strings(data, *places[_STRINGS]), *places[_DIALECTS])
    except (IndexError, KeyError, UnicodeDecodeError):
        return None


def _strings(data: bytes, at: int, end: int) -> list[bytes]:
    """The texts of a module: their sizes stand first, the last one's before the others'."""
    count, at = number_at(data, at, end)
    sizes = []
    for _ in range(count):
        size, at = number_at(data, at, end)
        sizes.append(size)
    found = []
    for size in reversed(sizes):
        found.append(data[at : at + size - 1])
        at += size
    return found


def _names(data: bytes, strings: list[bytes], at: int, end: int) -> set[str]:
    dialects = []
    count, at = number_at(data, at, end)
    for _ in range(count):
        said, at = number_at(data, at, end)
        dialects.append(strings[said >> 1].decode())
        if said & 1:  # its version, a section of its own
            size, at = number_at(data, at + 1, end)
            at += size
    found = set()
    _, at = number_at(data, at, end)  # how many names there are
    while at < end:
        dialect, at = number_at(data, at, end)
        count, at = number_at(data, at, end)
        for _ in range(count):
            said, at = number_at(data, at, end)
            found.add(f"{dialects[dialect]}.{strings[said >> 1].decode()}")
    return found
