"""Reading bytecode without a third copy of the elements of large constants.

MLIR's reader copies the elements of a constant twice: out of the bytes into memory of its own, and
from there into the context. So a file of 1 GB would take 3 GB. Instead, MLIR is given the bytecode
with a single element in the place of each large constant's, which stands for all. It is a stand-in:
no other constant of the file has this element. Then each stand-in is replaced by the elements
themselves, which MLIR copies once.

Whatever is not as expected is left to MLIR's own reader, at the cost of that memory: elements in
other attributes than a constant's value, contents that don't fit their types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod
from typing import Final, NamedTuple

import numpy as np
from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.shape import ArrayShape
from lowering.bytecode import reference
from lowering.errors import LoweringError
from lowering.jaxlib_api import bytecode, elements_attribute
from lowering.reading.bytecode_tables import (
    ENTRIES,
    OFFSETS,
    Entry,
    Section,
    Tables,
    number_at,
    sections_of,
)
from lowering.types import shape_of_type

__all__ = ["SetApart", "put_back", "set_apart"]

LARGE_FILE: Final = 64 << 20
"""From how many bytes on it is worth the time: 2 us an operation."""

LARGE_ELEMENTS: Final = 1 << 20
"""From how many bytes on elements are set apart."""

LARGE_SHARE: Final = 0.875
"""What part of a file these must be: the rest is copied."""

_ELEMENTS: Final = {b"builtin": 0x25, b"vhlo": 0x1F}
_TENSOR: Final = {b"builtin": 0x1B, b"vhlo": 0x29}
"""How dialects encode the elements of constants, and tensor types: the first byte."""

_ELEMENT_SIZES: Final = (1, 2, 4, 8, 16)


class _Elements(NamedTuple):
    """The elements of a constant, the one that stands for them, and one that no tensor as large
    consists of."""

    stand_in: bytes
    spare: bytes
    content: memoryview


class SetApart(NamedTuple):
    """Bytecode, and what was taken out of it.

    Attributes:
        rest: the bytecode, with stand-ins.
        elements: what they stand for.
    """

    rest: bytes
    elements: list[_Elements]


class _Dense(NamedTuple):
    """An attribute that consists of elements.

    Attributes:
        entry: where it stands.
        head: what stands before the number of bytes.
        begin: where they begin.
        sizes: of one of them, and of as many as there are; zeros where that isn't known.
    """

    entry: Entry
    head: bytes
    begin: int
    sizes: tuple[int, int]

    @property
    def length(self) -> int:
        """How many bytes are there: those of one element, if all are the same."""
        return self.entry.end - self.begin


def set_apart(source: bytes) -> SetApart | None:
    """Takes the elements of large constants out of MLIR bytecode, or a portable artifact.

    None where there are none to speak of, or not all is understood.
    """
    if len(source) < LARGE_FILE:
        return None
    sections = sections_of(lambda at, size: source[at : at + size], len(source))
    if sections is None or any(one.is_aligned for one in sections):
        return None  # what is aligned can't be moved
    try:
        tables = Tables(source, sections)
        found = list(_dense(tables))
    except (IndexError, KeyError, ValueError):
        return None
    groups: dict[tuple[int, int], list[_Dense]] = {}
    for one in found:
        if one.length >= LARGE_ELEMENTS and one.length == one.sizes[1] > one.sizes[0]:
            groups.setdefault(one.sizes, []).append(one)
    elements: list[_Elements] = []
    replaced: dict[Entry, bytes] = {}
    view = memoryview(source)
    for (size, _), large in groups.items():
        spare, *stand_ins = islice(_unused(source, found, large), len(large) + 1)
        if len(stand_ins) < len(large):
            continue  # of 256 bytes
        for one, stand_in in zip(large, stand_ins, strict=True):
            elements.append(_Elements(stand_in, spare, view[one.begin : one.entry.end]))
            replaced[one.entry] = one.head + reference(size) + stand_in
    if sum(len(one.content) for one in elements) < LARGE_SHARE * len(source):
        return None
    return SetApart(_rewritten(tables, sections, replaced), elements)


def _dense(tables: Tables) -> Iterator[_Dense]:
    """The attributes that consist of elements.

    Raises:
        ValueError: others may as well.
    """
    data = tables.data
    dialects = tables.dialects()
    for entry in tables.attributes:
        if not entry.is_encoded:
            if b"dense" in data[entry.begin : entry.end]:
                raise ValueError
            continue
        dialect = dialects[entry.dialect]
        if entry.begin == entry.end or data[entry.begin] != _ELEMENTS.get(dialect):
            continue
        kind, at = number_at(data, entry.begin + 1, entry.end)
        size, begin = number_at(data, at, entry.end)
        if begin + size != entry.end:
            raise ValueError
        count = _element_count(tables, dialects, tables.types[kind])
        each = 0
        if size < count:
            each = size  # of a single one, in all places; or of bits
        elif size > _ELEMENT_SIZES[-1] and count and size % count == 0:
            each = size // count  # and what is smaller may be a single one
        sizes = (each, each * count) if each in _ELEMENT_SIZES else (0, 0)
        yield _Dense(entry, data[entry.begin : at], begin, sizes)


def _element_count(tables: Tables, dialects: list[bytes], entry: Entry) -> int:
    """How many elements a tensor type has; 0 where that isn't known."""
    data = tables.data
    code = _TENSOR.get(dialects[entry.dialect]) if entry.is_encoded else None
    if entry.begin == entry.end or data[entry.begin] != code:
        return 0
    rank, at = number_at(data, entry.begin + 1, entry.end)
    sizes = []
    for _ in range(rank):
        size, at = number_at(data, at, entry.end)
        if size & 1:  # negative
            return 0
        sizes.append(size >> 1)
    return prod(sizes)


def _unused(source: bytes, found: list[_Dense], large: list[_Dense]) -> Iterator[bytes]:
    """The elements that no tensor consists of which is as large as these are."""
    sizes = large[0].sizes
    apart = {one.entry for one in large}
    size, _ = sizes
    used = {
        source[one.begin : one.begin + size]
        for one in found
        if one.sizes in ((0, 0), sizes) and one.entry not in apart
    }
    numbers = range(1 << 8 * min(size, 4))
    return (n for number in numbers if (n := number.to_bytes(size, "little")) not in used)


def _rewritten(tables: Tables, sections: list[Section], replaced: dict[Entry, bytes]) -> bytes:
    """The bytecode with other contents of some attributes."""
    view = memoryview(tables.data)
    places = {one.kind: one for one in sections}
    changes: dict[int, list[tuple[int, int, bytes]]] = {ENTRIES: [], OFFSETS: []}
    for entry, content in replaced.items():
        changes[ENTRIES].append((entry.begin, entry.end, content))
        said = reference(len(content) << 1 | 1)
        changes[OFFSETS].append((entry.size_begin, entry.size_end, said))
    pieces: list[bytes | memoryview] = []
    at = 0
    for kind in (one.kind for one in sections):
        _, _, begin, size = places[kind]
        if kind not in changes:
            pieces.append(view[at : begin + size])
            at = begin + size
            continue
        written: list[bytes | memoryview] = []
        place = begin
        for first, last, content in sorted(changes[kind]):
            written += view[place:first], content
            place = last
        written.append(view[place : begin + size])
        pieces += bytes((kind,)), reference(sum(map(len, written))), *written
        at = begin + size
    return b"".join(pieces)


def put_back(module: ir.Module, apart: SetApart) -> bool:
    """Gives constants the elements that were set apart.

    Args:
        module: which MLIR read from `apart.rest`.

    Returns:
        Whether that is all that was set apart; else the module is not to be used.
    """
    holders: list[tuple[ir.Operation, ir.Type, _Elements]] = []
    stand_ins: dict[ir.Type, dict[ir.Attribute, _Elements]] = {}

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == "stablehlo.constant":
            kind = operation.results[0].type
            if kind not in stand_ins:
                stand_ins[kind] = dict(_of_type(kind, apart))
            found = _held(operation, stand_ins[kind])
            if found is not None:
                holders.append((operation, kind, found))
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(look)
        for operation, kind, elements in holders:
            spare = np.frombuffer(elements.spare, np.uint8)
            operation.attributes["value"] = elements_attribute(spare, kind)
        if _any_left(module, apart):
            return False
        made: dict[tuple[ir.Type, bytes], ir.Attribute] = {}
        for operation, kind, elements in holders:
            key = kind, elements.stand_in
            if key not in made:
                array = np.frombuffer(elements.content, np.uint8)
                made[key] = elements_attribute(array, kind)
            operation.attributes["value"] = made[key]
    return True


def _of_type(kind: ir.Type, apart: SetApart) -> Iterator[tuple[ir.Attribute, _Elements]]:
    """The attributes of a type that may be stand-ins."""
    try:
        shape = shape_of_type(kind)
    except LoweringError:
        return
    if not isinstance(shape, ArrayShape) or shape.element_type is pt.pred:
        return  # of truth values MLIR writes bits
    size = shape.element_type.dtype.itemsize
    for elements in apart.elements:
        wanted = size, size * shape.element_count
        if (len(elements.stand_in), len(elements.content)) == wanted:
            array = np.frombuffer(elements.stand_in, np.uint8)
            yield elements_attribute(array, kind), elements


def _held(operation: ir.Operation, stand_ins: Mapping[ir.Attribute, _Elements]) -> _Elements | None:
    """What the value of a constant stands for; None if it is no stand-in."""
    if not stand_ins:
        return None
    try:
        return stand_ins.get(operation.attributes["value"])
    except TypeError:  # of complex elements Python can't be given it
        alone = operation.clone()
        for name in [name for name in alone.attributes if name != "value"]:
            del alone.attributes[name]
        text = str(alone.get_asm(large_elements_limit=16)).rstrip()
        return next((one for a, one in stand_ins.items() if text.endswith(f" {a}")), None)


def _any_left(module: ir.Module, apart: SetApart) -> bool:
    """Whether a stand-in is anywhere in a module, or may be.

    In the module's bytecode there are all attributes that it refers to, by whatever way.
    """
    code = bytecode(module)
    sections = sections_of(lambda at, size: code[at : at + size], len(code))
    stand_ins = {(len(one.stand_in), len(one.content)): set[bytes]() for one in apart.elements}
    for one in apart.elements:
        stand_ins[len(one.stand_in), len(one.content)].add(one.stand_in)
    stand_ins[0, 0] = set().union(*stand_ins.values())
    try:
        found = list(_dense(Tables(code, sections or ())))
    except (IndexError, KeyError, ValueError):
        return True
    return any(code[one.begin : one.entry.end] in stand_ins.get(one.sizes, ()) for one in found)
