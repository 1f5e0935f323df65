"""What stands where in a module, read from its own bytecode.

MLIR's Python makes an object of each answer, which takes 0.2 to 1 us, and an operation takes ten
answers. MLIR writes the bytecode of a module in 0.5 us an operation, and to read the operations
out of it takes 2 us: in it names, types, locations and attributes are numbers, and equal ones have
the same number. So what is said many times is asked of MLIR once, by its number.

MLIR Bytecode Format: Sections; IR Section. Use-list orders stand where the documentation has them
since version 3; the version written here is 6.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import Final

from jaxlib.mlir import ir

from lowering.importer.bodies import Body, Holder

__all__ = ["Outline"]

_VERSION: Final = 6
_STRINGS, _DIALECTS, _ATTRIBUTES, _OFFSETS, _IR, _RESOURCES = range(6)

_HAS_ATTRIBUTES: Final = 0x01
_HAS_RESULTS: Final = 0x02
_HAS_OPERANDS: Final = 0x04
_HAS_SUCCESSORS: Final = 0x08
_HAS_REGIONS: Final = 0x10
_HAS_USE_ORDERS: Final = 0x20
_HAS_PROPERTIES: Final = 0x40
_HAS_MORE: Final = _HAS_SUCCESSORS | _HAS_REGIONS | _HAS_USE_ORDERS

# How the builtin dialect encodes attributes.
_STRING: Final = 5
_FILE_LOCATION: Final = 0x17
_NAME_LOCATION: Final = 0x1D
_UNKNOWN_LOCATION: Final = 0x1F

_LARGE_PIECE: Final = 1 << 16
"""From how many bytes on elements of constants are not kept."""


def _number(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """A number of 1 to 9 bytes, and where it ends."""
    first = data[at]
    if first & 1:
        return first >> 1, at + 1
    if not first:
        return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
    width = (first & -first).bit_length()
    return int.from_bytes(data[at : at + width], "little") >> width, at + width


class _Written:
    """A file that keeps the bytecode written to it, but for the elements of large constants.

    Attributes:
        data: what is kept.
        gaps: where in `data` something is left out, and how many bytes.
        sections: of each kind where it begins in `data`, and its size before gaps.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.gaps: list[tuple[int, int]] = []
        self.sections: dict[int, tuple[int, int]] = {}
        self._at = 0  # in what was written
        self._end = 0  # of the last section that is known
        self._kind = -1

    def write(self, piece: bytes) -> None:
        if len(piece) >= _LARGE_PIECE:
            self.find_sections()
            if self._kind in (_ATTRIBUTES, _RESOURCES) and self._at + len(piece) <= self._end:
                self.gaps.append((len(self.data), len(piece)))
                self._at += len(piece)
                return
        self.data += piece
        self._at += len(piece)

    def find_sections(self) -> None:
        """Goes on to the section that is being written."""
        data = self.data
        left_out = self._at - len(data)
        if not self._end:
            _, at = _number(data, 4)
            self._end = data.index(0, at) + 1
        while self._end < self._at:
            at = self._end - left_out
            kind = data[at]
            size, at = _number(data, at + 1)
            if kind & 0x80:
                alignment, at = _number(data, at)
                # Places in the file, as they are before anything is left out.
                at += -(at + left_out) % alignment
            self._kind = kind & 0x7F
            self.sections[self._kind] = (at, size)
            self._end = at + left_out + size


class Outline:
    """The operations of a module, and what the numbers in them mean.

    Args:
        module: must not be changed while this is in use.

    Attributes:
        names: the names of operations, by number.
        body: that of the module: its operations are the functions.
        holders: of each operation in it, the operations inside that have regions; inner ones, and
            those that stand before others, first.
    """

    def __init__(self, module: ir.Module) -> None:
        written = _Written()
        module.operation.write_bytecode(written, _VERSION)
        written.find_sections()
        self._data = bytes(written.data)
        self._gaps = written.gaps
        self._sections = written.sections
        self._strings = self._read_strings()
        self.names = self._read_names()
        self._starts: list[int] = []
        self.body, self.holders = _read(self._data, self._sections[_IR][0])
        self.body.stands_for(module.body)

    def _read_strings(self) -> list[bytes]:
        data = self._data
        at, _ = self._sections[_STRINGS]
        count, at = _number(data, at)
        sizes = []
        for _ in range(count):
            size, at = _number(data, at)
            sizes.append(size)
        strings = []
        for size in reversed(sizes):
            strings.append(data[at : at + size - 1])
            at += size
        return strings

    def _read_names(self) -> list[str]:
        """The full names of operations; those of a dialect stand in a group, or several."""
        data = self._data
        at, size = self._sections[_DIALECTS]
        end = at + size
        count, at = _number(data, at)
        dialects = []
        for _ in range(count):
            said, at = _number(data, at)
            dialects.append(self._strings[said >> 1].decode())
            if said & 1:  # its version, a section of its own
                size, at = _number(data, at + 1)
                at += size
        self._builtin_dialect = dialects.index("builtin")
        names = []
        _, at = _number(data, at)  # how many names there are
        while at < end:
            dialect, at = _number(data, at)
            count, at = _number(data, at)
            for _ in range(count):
                said, at = _number(data, at)  # and whether the operation is known
                names.append(f"{dialects[dialect]}.{self._strings[said >> 1].decode()}")
        return names

    def place(self, location: int) -> tuple[bytes, int, int, bytes | None] | None:
        """The file, line and column of a location, and its name; None if it is of another kind."""
        found = self._builtin(location)
        if found is None:
            return None
        kind, at = found
        name = None
        if kind == _NAME_LOCATION:
            said, at = _number(self._data, at)
            inner, _ = _number(self._data, at)
            name, found = self._text(said), self._builtin(inner)
            if found is None or name is None:
                return None
            kind, at = found
        if kind == _UNKNOWN_LOCATION:
            return b"", 0, 0, name
        if kind != _FILE_LOCATION:
            return None
        said, at = _number(self._data, at)
        line, at = _number(self._data, at)
        column, at = _number(self._data, at)
        file = self._text(said)
        return None if file is None else (file, line, column, name)

    def _text(self, attribute: int) -> bytes | None:
        found = self._builtin(attribute)
        if found is None or found[0] != _STRING:
            return None
        number, _ = _number(self._data, found[1])
        return self._strings[number]

    def _builtin(self, attribute: int) -> tuple[int, int] | None:
        """The kind of an attribute that is the builtin dialect's, and where what it says begins."""
        if not self._starts:
            self._read_starts()
        start = self._starts[attribute]
        return None if start < 0 else (self._data[start], start + 1)

    def _read_starts(self) -> None:
        """Finds where each attribute begins; -1 for one that is text, or not the builtin dialect's.

        Sizes stand in groups of one dialect each.
        """
        data = self._data
        at, _ = self._sections[_OFFSETS]
        wanted, at = _number(data, at)
        _, at = _number(data, at)
        sizes: list[int] = []
        encoded: list[bool] = []
        while len(sizes) < wanted:
            dialect, at = _number(data, at)
            count, at = _number(data, at)
            is_builtin = dialect == self._builtin_dialect
            for _ in range(count):
                size, at = _number(data, at)
                sizes.append(size >> 1)
                encoded.append(is_builtin and size & 1 == 1)
        # Of large elements, which are not there, the beginnings are.
        start, _ = self._sections[_ATTRIBUTES]
        before = [0, *accumulate(size for _, size in self._gaps)]
        places = [at + gone for (at, _), gone in zip(self._gaps, before, strict=False)]
        self._starts = [
            at - before[bisect_left(places, at)] if known else -1
            for at, known in zip(accumulate(sizes, initial=start), encoded, strict=False)
        ]


class _Frame:
    """An operation whose regions are being read.

    Attributes:
        body: what it stands in.
        left: how many operations come after it there.
        head: what was read of it.
        first: the number of the first value of its regions.
        regions: how many of them are still to be read.
        blocks: how many blocks are, of the region that is being read.
        key: what operations with regions that are alike have in common.
        inner: the bodies of its regions.
    """

    __slots__ = ("blocks", "body", "first", "head", "inner", "key", "left", "regions")

    def __init__(self, body: Body, left: int, head: _Head, said: int, key: Hashable) -> None:
        self.body = body
        self.left = left
        self.head = head
        self.first = 0 if said & 1 else body.first + body.count
        self.regions = said >> 1
        self.blocks = 0
        self.key = key
        self.inner: list[Body] = []


_Head = tuple[int, int, int, int, Sequence[int], Sequence[int]]
"""An entry but for its bodies."""


def _read(data: bytes, at: int) -> tuple[Body, dict[int, list[Holder]]]:
    """The body of the module, and by their positions the holders inside its functions.

    Args:
        at: where the IR section begins: with a block whose one operation is the module.
    """
    body = Body(0, 0, None)
    left, at = _read_block_head(data, at, body)
    entries, types = body.entries, body.types
    frames: list[_Frame] = []
    holders: dict[int, list[Holder]] = {}
    inside: list[Holder] = []
    # Of a function: regions that use nothing from outside and consist of the same bytes are one.
    alike: dict[Hashable, tuple[Body, ...]] = {}
    while True:
        # Most numbers are of one byte, or two. Reading these here halves the time.
        while left:
            left -= 1
            byte = data[at]
            if byte & 1:
                kind = byte >> 1
                at += 1
            else:
                kind, at = _number(data, at)
            has = data[at]
            byte = data[at + 1]
            if byte & 1:
                location = byte >> 1
                at += 2
            else:
                location, at = _number(data, at + 1)
            attributes = properties = -1
            if has & _HAS_ATTRIBUTES:
                attributes, at = _number(data, at)
            if has & _HAS_PROPERTIES:
                properties, at = _number(data, at)
            results: Sequence[int] = ()
            if has & _HAS_RESULTS:
                if data[at] == 3 and data[at + 1] & 1:
                    result = data[at + 1] >> 1
                    at += 2
                    types.append(result)
                    results = (result,)
                else:
                    results, at = _numbers(data, at)
                    types += results
            operands: list[int] = []
            if has & _HAS_OPERANDS:
                count, at = _number(data, at)
                while count:
                    count -= 1
                    byte = data[at]
                    if byte & 1:
                        operands.append(byte >> 1)
                        at += 1
                    elif byte & 2:
                        operands.append((byte | data[at + 1] << 8) >> 2)
                        at += 2
                    else:
                        value, at = _number(data, at)
                        operands.append(value)
            if has & _HAS_MORE:
                if has & _HAS_SUCCESSORS:
                    _, at = _numbers(data, at)
                if has & _HAS_USE_ORDERS:
                    at = _behind_use_orders(data, at, len(results))
                if has & _HAS_REGIONS:
                    head = (kind, location, attributes, properties, results, operands)
                    said, at = _number(data, at)
                    key = None
                    if said & 1:
                        size, at = _number(data, at + 1)
                        if len(frames) > 1:
                            of_operands = tuple(map(body.type_of, operands))
                            key = kind, tuple(results), of_operands, data[at : at + size]
                            known = alike.get(key)
                            if known is not None:
                                entries.append((*head, known))
                                at += size
                                continue
                    frames.append(_Frame(body, left, head, said, key))
                    break
            # The garbage collector soon passes over tuples of numbers, and over lists never.
            given = tuple(operands)
            entries.append((kind, location, attributes, properties, results, given, ()))
        while frames:
            frame = frames[-1]
            if frame.blocks:  # behind the first: nothing of XLA's has any, and they are passed over
                frame.blocks -= 1
                spare = Body(body.first, body.count, body.holder)
                spare.types = body.types
                body = spare
                left, at = _read_block_head(data, at, body)
                break
            if frame.regions:
                holder = frame.body, len(frame.body.entries), len(frame.inner)
                frame.regions -= 1
                blocks, at = _number(data, at)
                if blocks:
                    values, at = _number(data, at)
                    body = Body(frame.first, values, holder)
                    frame.blocks = blocks - 1
                    frame.inner.append(body)
                    left, at = _read_block_head(data, at, body)
                    break
                continue
            frames.pop()
            inner = tuple(frame.inner)
            if not frames:
                return inner[0], holders
            for one in inner:
                one.find_captures()
            if frame.key is not None:
                alike[frame.key] = inner
            body, left = frame.body, frame.left
            inside.append((body, len(body.entries), inner))
            body.entries.append((*frame.head, inner))
            if len(frames) == 1:
                inside.pop()  # the function itself
                holders[len(body.entries) - 1] = inside
                inside = []
                alike.clear()
            if left:
                break
        entries, types = body.entries, body.types


def _numbers(data: bytes, at: int) -> tuple[list[int], int]:
    """Several numbers behind their count, and where they end."""
    count, at = _number(data, at)
    found = []
    for _ in range(count):
        number, at = _number(data, at)
        found.append(number)
    return found, at


def _read_block_head(data: bytes, at: int, body: Body) -> tuple[int, int]:
    """How many operations a block has, and where they begin; enters its arguments."""
    said, at = _number(data, at)
    if said & 1:
        count, at = _number(data, at)
        for _ in range(count):
            kind, at = _number(data, at)
            body.types.append(kind >> 1)
            if kind & 1:  # its location
                _, at = _number(data, at)
        body.argument_count = count
        at += 1
        if data[at - 1]:
            at = _behind_use_orders(data, at, count)
    return said >> 1, at


def _behind_use_orders(data: bytes, at: int, values: int) -> int:
    """Where the orders end in which some of so many values are used."""
    count = 1
    if values != 1:
        count, at = _number(data, at)
    for _ in range(count):
        if values != 1:
            _, at = _number(data, at)
        said, at = _number(data, at)
        for _ in range(said >> 1):
            _, at = _number(data, at)
    return at
