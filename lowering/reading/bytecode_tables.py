"""Read the tables of MLIR bytecode without MLIR: strings, operations, types, constants.

Bytecode consists of sections. Operations refer by number to the section of attributes and types.
The next section contains the sizes of these attributes and types, in groups of one dialect.

MLIR Bytecode Format: File; Sections; Attribute/Type Sections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.jaxlib_api.mlir import BYTECODE_MAGIC, bytecode_pieces
from lowering.mlir.bytecode import reference

STRINGS: Final = 0
DIALECTS: Final = 1
_ENTRIES: Final = 2
_OFFSETS: Final = 3
"""Kinds of sections: strings; dialects; attributes and types; sizes of attributes and types."""

NAMES_HAVE_FLAGS: Final = 5
"""The first bytecode version whose dialect section has the number of operation names, and a flag
with each name: whether the operation is registered."""

_MAX_PRODUCER: Final = 1 << 12
"""The maximum length of the producer's name in bytes. The names of real producers are shorter."""


class Section(NamedTuple):
    """The kind of a section, and the position and size of its content."""

    kind: int
    is_aligned: bool
    begin: int
    size: int


def sections_of(part: Callable[[int, int], bytes], length: int) -> list[Section] | None:
    """Return the sections of bytecode, or None if the sections do not fill the bytecode exactly.

    Args:
        part: a function that returns bytes of the bytecode, given their position and number.
        length: the size of the bytecode.

    MLIR Bytecode Format: File; Alignment.
    """

    def number(at: int) -> tuple[int, int]:
        encoded = part(at, 9)
        value, size = number_at(encoded, 0, min(len(encoded), length - at))
        return value, at + size

    sections: list[Section] = []
    try:
        _, at = number(len(BYTECODE_MAGIC))
        producer = part(at, _MAX_PRODUCER)
        at += producer.index(0) + 1
        while at < length:
            kind = part(at, 1)[0]
            if any(kind & 0x7F == section.kind for section in sections):
                return None  # each kind occurs once; this stops early in a file of zeros
            size, at = number(at + 1)
            if kind > 0x7F:
                alignment, at = number(at)
                if alignment:
                    at += -at % alignment
            sections.append(Section(kind & 0x7F, kind > 0x7F, at, size))
            at += size
    except (IndexError, ValueError):
        return None
    return sections if at == length else None


def module_strings(code: bytes) -> bytes:
    """Return the string section of trusted bytecode, or `code` if it has none.

    The section contains zero-terminated strings, such as names of operations and attributes. To
    search this section is faster than to search the bytecode, which also contains constants.
    """
    for section in sections_of(lambda at, size: code[at : at + size], len(code)) or ():
        if section.kind == STRINGS:
            return code[section.begin : section.begin + section.size]
    return code


def number_at(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the variable-width integer at a position, and the position after it.

    Raises:
        IndexError: the integer extends beyond `end`.
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
    """Return whether bytecode has a size for each attribute and type, and the sizes fit.

    MLIR does not check the sizes. With wrong sizes, MLIR would write beyond its tables, and then
    refuse the file, crash or loop.

    MLIR Bytecode Format: Attribute/Type Sections.
    """
    sections = sections_of(lambda at, size: data[at : at + size], len(data))
    by_kind = {section.kind: section for section in sections or ()}
    if not by_kind.keys() >= {_ENTRIES, _OFFSETS}:
        return False
    _, _, at, size = by_kind[_OFFSETS]
    end, remaining_bytes = at + size, by_kind[_ENTRIES].size
    try:
        attributes, at = number_at(data, at, end)
        types, at = number_at(data, at, end)
        for remaining in (attributes, types):
            while remaining:
                _, at = number_at(data, at, end)  # the dialect
                count, at = number_at(data, at, end)
                if count > remaining:
                    return False
                remaining -= count
                for _ in range(count):
                    entry, at = number_at(data, at, end)
                    remaining_bytes -= entry >> 1  # the lowest bit is a flag
    except IndexError:
        return False
    return at == end and remaining_bytes >= 0


class Entry(NamedTuple):
    """A type of a module, or an attribute of a dialect other than builtin.

    Attributes:
        dialect: the name of the dialect.
        is_type: whether it is a type.
        code: the dialect's number for this kind of attribute or type; None if it is written as
            text.
        content: its first bytes.
    """

    dialect: bytes
    is_type: bool
    code: int | None
    content: bytes


_ENTRY_PREFIX: Final = 16
"""The number of bytes of an attribute or type that `table_entries` returns."""


def table_entries(data: bytes) -> list[Entry] | None:
    """Return the types of a module and the attributes of dialects other than builtin.

    Args:
        data: trusted bytecode.

    Returns:
        Each type and attribute once; None if the bytecode does not have the tables.

    MLIR Bytecode Format: Attribute/Type Sections.
    """
    sections = sections_of(lambda at, size: data[at : at + size], len(data))
    places = {kind: (begin, begin + size) for kind, _, begin, size in sections or ()}
    if not places.keys() >= {STRINGS, DIALECTS, _ENTRIES, _OFFSETS}:
        return None
    dialects, _ = _dialects_of(data, *places[DIALECTS], strings_of(data, *places[STRINGS]))
    position, _ = places[_ENTRIES]
    at, end = places[_OFFSETS]
    attributes, at = number_at(data, at, end)
    types, at = number_at(data, at, end)
    entries: list[Entry] = []
    for remaining, is_type in ((attributes, False), (types, True)):
        while remaining:
            number, at = number_at(data, at, end)
            count, at = number_at(data, at, end)
            remaining -= count
            dialect = dialects[number]
            is_listed = is_type or dialect != b"builtin"
            for _ in range(count):
                size = data[at]
                if size & 1:  # a number of one byte; most are
                    size >>= 1
                    at += 1
                else:
                    size, at = number_at(data, at, end)
                if is_listed:
                    content = data[position : position + min(size >> 1, _ENTRY_PREFIX)]
                    # The lowest bit of the size: whether the dialect encoded the entry.
                    code = number_at(content, 0, len(content))[0] if size & 1 else None
                    entries.append(Entry(dialect, is_type, code, content))
                position += size >> 1
    return entries


def strings_of(data: bytes, at: int, end: int) -> list[bytes]:
    """Return the strings of a module, from the string section of its bytecode.

    The section contains the sizes of the strings in reverse order, then the strings.

    Args:
        data: the bytecode.
        at, end: where the content of the section begins and ends.

    Raises:
        IndexError: the section is too short.

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
    """Return the full names of the operations in a module, from the dialect section.

    The section contains the names in groups of one dialect.

    Args:
        data: bytecode of version `NAMES_HAVE_FLAGS` or later.
        at, end: where the content of the section begins and ends.
        strings: the result of `strings_of`.

    Raises:
        IndexError: the section is too short.
        UnicodeDecodeError: a name is not UTF-8.

    MLIR Bytecode Format: Dialect Section.
    """
    dialects, at = _dialects_of(data, at, end, strings)
    operations = []
    _, at = number_at(data, at, end)  # the number of names
    while at < end:
        dialect, at = number_at(data, at, end)
        count, at = number_at(data, at, end)
        for _ in range(count):
            entry, at = number_at(data, at, end)  # the lowest bit: whether it is registered
            operations.append(f"{dialects[dialect].decode()}.{strings[entry >> 1].decode()}")
    return operations


def _dialects_of(
    data: bytes, at: int, end: int, strings: Sequence[bytes]
) -> tuple[list[bytes], int]:
    """Return the names of a module's dialects, and the position after them."""
    count, at = number_at(data, at, end)
    dialects = []
    for _ in range(count):
        entry, at = number_at(data, at, end)
        dialects.append(strings[entry >> 1])
        if entry & 1:  # with a version, which is a section of its own
            size, at = number_at(data, at + 1, end)
            at += size
    return dialects, at


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


Elements = np.ndarray[Any, Any]


def repeated(element: Elements, shape: ArrayShape) -> Elements:
    """Return a read-only array of `shape` that repeats one element, without copies of it."""
    element = element.reshape(())
    element.flags.writeable = False
    return np.broadcast_to(element, shape.dimensions) if shape.rank else element


def elements_in_bytecode(operation: ir.Operation, shape: ArrayShape) -> Elements | None:
    """Return the elements of a constant operation, found in the operation's bytecode.

    Return None if the elements are not found, or if several parts of the bytecode may be them.
    """
    dtype = shape.element_type.dtype
    count = shape.element_count
    if not count:
        return np.empty(shape.dimensions, dtype)
    # A clone, without copying elements: MLIR aborts on writing a single operation whose result has
    # users. Other attributes may have elements too.
    clone = operation.clone()
    for name in [name for name in clone.attributes if name != "value"]:
        del clone.attributes[name]
    sizes = (count * dtype.itemsize, dtype.itemsize)
    candidates = set(_elements_among(bytecode_pieces(clone), sizes))
    if len(candidates) != 1:
        return None
    array = np.frombuffer(candidates.pop(), np.uint8)  # read-only, without a copy
    if shape.element_type is pt.pred:
        array = array != 0
        array.flags.writeable = False
    array = array.view(dtype)
    return repeated(array.copy(), shape) if array.size == 1 else array.reshape(shape.dimensions)


def _elements_among(pieces: Sequence[bytes], sizes: Sequence[int]) -> Iterator[bytes]:
    """Yield the pieces of bytecode that are the elements of an attribute.

    The piece before dense elements ends with the attribute code, the number of the type, and the
    size of the elements. The piece before a resource consists of the alignment, the size, and
    padding. The piece before that begins with the header of the resource section, which contains
    only this resource.

    Args:
        pieces: the bytecode, in the pieces in which MLIR writes it.
        sizes: the possible sizes of the elements in bytes.

    MLIR Bytecode Format: Attribute/Type Sections; Resource Section.
    """
    for size in sizes:
        encoded = re.escape(reference(size))
        dense = re.compile(b"%." + encoded + b"$", re.DOTALL)
        resource = re.compile(b".{1,9}" + encoded + b"\xcb*", re.DOTALL)
        for before, head, piece in zip(pieces, pieces[1:], pieces[2:], strict=False):
            if len(piece) != size:
                continue
            section = reference(len(head) + size)
            if dense.search(head) or (
                before.startswith((b"\x05" + section, b"\x85" + section))
                and resource.fullmatch(head)
            ):
                yield piece
