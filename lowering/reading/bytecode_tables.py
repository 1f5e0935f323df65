"""The tables of MLIR bytecode, as far as files are looked at before MLIR reads them.

Bytecode consists of sections. Two of them say what operations refer to by number: one holds the
attributes and the types, one behind the other, and the next for each its size, in groups of one
dialect each.

MLIR Bytecode Format: File; Sections; Attribute/Type Sections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from lowering.jaxlib_api import BYTECODE_MAGIC

__all__ = [
    "DIALECTS",
    "ENTRIES",
    "NAMES_HAVE_FLAGS",
    "OFFSETS",
    "STRINGS",
    "Entry",
    "Section",
    "Tables",
    "dialects_and_operations",
    "number_at",
    "sections_of",
    "strings_of",
    "words_in",
]

STRINGS: Final = 0
DIALECTS: Final = 1
ENTRIES: Final = 2
OFFSETS: Final = 3
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


class Entry(NamedTuple):
    """An attribute or a type.

    Attributes:
        dialect: the number of the dialect that it is of.
        is_encoded: as the dialect has it; else it is text.
        begin, end: where it stands.
        size_begin, size_end: where its size stands.
    """

    dialect: int
    is_encoded: bool
    begin: int
    end: int
    size_begin: int
    size_end: int


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


def words_in(code: bytes) -> bytes:
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


class Tables:
    """The attributes and types of bytecode.

    Args:
        data: all of it.
        sections: which `sections_of` found in it.

    Attributes:
        data: the same.
        attributes, types: by their numbers.

    Raises:
        ValueError: the sizes are not as many as there are attributes and types, or more than what
            there is of these. MLIR's reader does not count, and writes over memory of others.
    """

    def __init__(self, data: bytes, sections: Sequence[Section]) -> None:
        self.data = data
        self._sections = {one.kind: one for one in sections}
        try:
            self.attributes, self.types = self._entries()
        except (IndexError, KeyError):
            raise ValueError("the table of sizes does not add up") from None

    def _entries(self) -> tuple[list[Entry], list[Entry]]:
        data = self.data
        _, _, at, size = self._sections[OFFSETS]
        end = at + size
        _, _, begin, size = self._sections[ENTRIES]
        last = begin + size
        attribute_count, at = number_at(data, at, end)
        type_count, at = number_at(data, at, end)
        lists: tuple[list[Entry], list[Entry]] = ([], [])
        for entries, wanted in zip(lists, (attribute_count, type_count), strict=True):
            while len(entries) < wanted:
                dialect, at = number_at(data, at, end)
                count, at = number_at(data, at, end)
                if count > wanted - len(entries):
                    raise IndexError
                for _ in range(count):
                    place = at
                    said, at = number_at(data, at, end)
                    after = begin + (said >> 1)
                    entries.append(Entry(dialect, said & 1 == 1, begin, after, place, at))
                    begin = after
        if at != end or begin > last:
            raise IndexError
        return lists

    def dialects(self) -> list[bytes]:
        """The names of the dialects, by their numbers.

        Raises:
            IndexError, KeyError: there are none.
        """
        data, sections = self.data, self._sections
        version, _ = number_at(data, len(BYTECODE_MAGIC), len(data))
        strings = strings_of(data, *_span(sections[STRINGS]))
        names, _ = _dialects(data, *_span(sections[DIALECTS]), strings, has_versions=version > 0)
        return names


def _span(section: Section) -> tuple[int, int]:
    return section.begin, section.begin + section.size


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


def _dialects(
    data: bytes, at: int, end: int, strings: Sequence[bytes], *, has_versions: bool = True
) -> tuple[list[bytes], int]:
    """The names of dialects, by their numbers, and where they end."""
    count, at = number_at(data, at, end)
    names = []
    for _ in range(count):
        said, at = number_at(data, at, end)
        if not has_versions:
            names.append(strings[said])
            continue
        names.append(strings[said >> 1])
        if said & 1:  # its version, a section of its own
            size, at = number_at(data, at + 1, end)
            at += size
    return names, at


def dialects_and_operations(
    data: bytes, at: int, end: int, strings: Sequence[bytes]
) -> tuple[list[bytes], list[str]]:
    """The names of the dialects, and the full ones of the operations, by their numbers.

    Names of operations stand in groups of one dialect each; a dialect may have several.

    Args:
        data: bytecode of version `NAMES_HAVE_FLAGS` or later.
        at, end: where the section is.
        strings: what `strings_of` gave.

    Raises:
        IndexError: it ends too early.
        UnicodeDecodeError: a name is no text.

    MLIR Bytecode Format: Dialect Section.
    """
    dialects, at = _dialects(data, at, end, strings)
    operations = []
    _, at = number_at(data, at, end)  # how many names there are
    while at < end:
        dialect, at = number_at(data, at, end)
        count, at = number_at(data, at, end)
        for _ in range(count):
            said, at = number_at(data, at, end)  # and whether the writer knew the operation
            operations.append(f"{dialects[dialect].decode()}.{strings[said >> 1].decode()}")
    return dialects, operations
