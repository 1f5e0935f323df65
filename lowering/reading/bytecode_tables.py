"""The tables of MLIR bytecode, as far as files are looked at before MLIR reads them.

Bytecode consists of sections. Two of them say what operations refer to by number: one holds the
attributes and the types, one behind the other, and the next for each its size, in groups of one
dialect each.

MLIR Bytecode Format: File; Sections; Attribute/Type Sections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from lowering.jaxlib_api.mlir import BYTECODE_MAGIC

__all__ = [
    "DIALECTS",
    "NAMES_HAVE_FLAGS",
    "STRINGS",
    "Section",
    "module_strings",
    "number_at",
    "operations_of",
    "sections_of",
    "sizes_add_up",
    "strings_of",
]

STRINGS: Final = 0
DIALECTS: Final = 1
_ENTRIES: Final = 2
_OFFSETS: Final = 3
"""Kinds of sections: texts, names, what attributes and types say, and how long each is."""

NAMES_HAVE_FLAGS: Final = 5
"""The version of the format since which the names of operations are counted, and said of each
whether the writer knew it."""

_MOST_OF_A_NAME: Final = 1 << 12
"""No program that writes bytecode has a longer name."""


class Section(NamedTuple):
    """Where the content of a section begins, and how long it is."""

    kind: int
    is_aligned: bool
    begin: int
    size: int


def sections_of(part: Callable[[int, int], bytes], length: int) -> list[Section] | None:
    """The sections of bytecode.

    Args:
        part: gives so many bytes from a place on.
        length: of the whole; None is given if the sections don't fill it exactly.

    MLIR Bytecode Format: File; Alignment.
    """

    def number(at: int) -> tuple[int, int]:
        """A variable-width integer, and where it ends."""
        first = part(at, 1)[0]
        width = (first & -first).bit_length() if first else 9
        if at + width > length:
            raise IndexError
        value = int.from_bytes(part(at, width), "little")
        return value >> (8 if width == 9 else width), at + width

    found: list[Section] = []
    try:
        _, at = number(len(BYTECODE_MAGIC))
        producer = part(at, _MOST_OF_A_NAME)
        at += producer.index(0) + 1
        while at < length:
            kind = part(at, 1)[0]
            if any(kind & 0x7F == known.kind for known in found):
                return None  # each is there once; of 3 GB of zeros this is known at once
            size, at = number(at + 1)
            if kind > 0x7F:
                alignment, at = number(at)
                if alignment:
                    at += -at % alignment
            found.append(Section(kind & 0x7F, kind > 0x7F, at, size))
            at += size
    except (IndexError, ValueError):
        return None
    return found if at == length else None


def module_strings(code: bytes) -> bytes:
    """The texts of a module's own bytecode, each with a zero behind: names of operations and of
    attributes among them.

    What is looked for in the whole is looked for in its constants too, which takes 0.1 s for each
    word and GB.
    """
    for section in sections_of(lambda at, size: code[at : at + size], len(code)) or ():
        if section.kind == STRINGS:
            return code[section.begin : section.begin + section.size]
    return code


def number_at(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of variable width, and where it ends.

    Raises:
        IndexError: it ends behind `end`.
    """
    if at >= end:
        raise IndexError
    first = data[at]
    if first & 1:
        return first >> 1, at + 1
    width = (first & -first).bit_length() if first else 9
    if at + width > end:
        raise IndexError
    value = int.from_bytes(data[at : at + width], "little")
    return value >> (8 if width == 9 else width), at + width


def sizes_add_up(data: bytes) -> bool:
    """Whether bytecode has a size for each attribute and type, and these fit their section.

    MLIR does not count: it writes behind the end of its tables. Then it may refuse the file, crash
    or loop, depending on what is there.

    MLIR Bytecode Format: Attribute/Type Sections.
    """
    sections = sections_of(lambda at, size: data[at : at + size], len(data))
    found = {one.kind: one for one in sections or ()}
    if not found.keys() >= {_ENTRIES, _OFFSETS}:
        return False
    _, _, at, size = found[_OFFSETS]
    end, left = at + size, found[_ENTRIES].size
    try:
        attributes, at = number_at(data, at, end)
        types, at = number_at(data, at, end)
        for wanted in (attributes, types):
            while wanted:
                _, at = number_at(data, at, end)  # the dialect
                count, at = number_at(data, at, end)
                if count > wanted:
                    return False
                wanted -= count
                for _ in range(count):
                    said, at = number_at(data, at, end)
                    left -= said >> 1  # the lowest bit is a flag
    except IndexError:
        return False
    return at == end and left >= 0


def strings_of(data: bytes, at: int, end: int) -> list[bytes]:
    """The texts of a module. Their sizes stand first, the last one's before the others'.

    Args:
        data: bytecode.
        at, end: where the section is.

    Raises:
        IndexError: it ends too early.

    MLIR Bytecode Format: String Section.
    """
    count, at = number_at(data, at, end)
    sizes = []
    for _ in range(count):
        size, at = number_at(data, at, end)
        sizes.append(size)
    strings = []
    for size in reversed(sizes):
        strings.append(data[at : at + size - 1])
        at += size
    return strings


def operations_of(data: bytes, at: int, end: int, strings: Sequence[bytes]) -> list[str]:
    """The full names of the operations.

    They are in groups of one dialect each; a dialect may have several.

    Args:
        data: bytecode of version `NAMES_HAVE_FLAGS` or later.
        at, end: where the section is.
        strings: the result of `strings_of`.

    Raises:
        IndexError: it ends too early.
        UnicodeDecodeError: a name is no text.

    MLIR Bytecode Format: Dialect Section.
    """
    count, at = number_at(data, at, end)
    dialects = []
    for _ in range(count):
        said, at = number_at(data, at, end)
        dialects.append(strings[said >> 1])
        if said & 1:  # its version, a section of its own
            size, at = number_at(data, at + 1, end)
            at += size
    operations = []
    _, at = number_at(data, at, end)  # how many names there are
    while at < end:
        dialect, at = number_at(data, at, end)
        count, at = number_at(data, at, end)
        for _ in range(count):
            said, at = number_at(data, at, end)  # and whether the writer knew the operation
            operations.append(f"{dialects[dialect].decode()}.{strings[said >> 1].decode()}")
    return operations
