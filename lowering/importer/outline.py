"""What stands where in a module, read from its own bytecode.

MLIR's Python makes an object of each answer, which takes 0.2 to 1 us, and an operation takes ten
answers. MLIR writes the bytecode of a module in 0.5 us an operation, and to read the operations
out of it takes 2 us: in it names, types, locations and attributes are numbers, and equal ones have
the same number. So what is said many times is asked of MLIR once, by its number.

MLIR Bytecode Format: Sections; IR Section. Use-list orders stand where the documentation has them
since version 3; the version written here is 6.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from lowering.importer.bodies import Body, Holder
from lowering.reading.bytecode_tables import dialects_and_operations, strings_of

__all__ = ["WITH_OWN_REGIONS", "Outline"]

_VERSION: Final = 6
_STRINGS, _DIALECTS, _ATTRIBUTES, _OFFSETS, _IR, _RESOURCES = range(6)

WITH_OWN_REGIONS: Final = frozenset(("stablehlo.case", "stablehlo.if", "stablehlo.while"))
"""Operations of which each has computations of its own, with the locations that these have, unless
regions agree in the locations too. Of the others one computation stands for all that are alike."""

_MOST_MASKS: Final = 16
"""So many ways in which locations lie in regions of one length are looked through."""

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

_IS_ODD: Final = bytes(n & 1 for n in range(256))
_HALVES: Final = bytes(n >> 1 for n in range(256))
"""For `bytes.translate`: a number that one byte holds is written as an odd one, twice as large."""

_WIDTHS: Final = np.array([8, *((n & -n).bit_length() for n in range(1, 256))], np.uint64)
"""Of a number that begins with this byte, how many bytes it has. (Of 9 is none of a location's.)"""

_BITS: Final = np.array([(1 << 8 * width) - 1 for width in range(9)], np.uint64)
"""The bits of so many bytes."""

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


def _read_sizes(data: bytes | bytearray, at: int) -> tuple[list[int], list[tuple[int, int]]]:
    """The sizes of the attributes; and of each group the number of its dialect, and its size.

    They stand in groups of one dialect each. Sizes are doubled; and one is added where an attribute
    is encoded as its dialect has it, and isn't text.
    """
    wanted, at = _number(data, at)
    _, at = _number(data, at)  # how many types there are
    sizes: list[int] = []
    groups: list[tuple[int, int]] = []
    is_odd = data.translate(_IS_ODD)
    while len(sizes) < wanted:
        dialect, at = _number(data, at)
        count, at = _number(data, at)
        groups.append((dialect, count))
        end = len(sizes) + count
        while len(sizes) < end:
            # Many small ones at once, as where each operation has a location.
            last = at + end - len(sizes)
            larger = is_odd.find(0, at, last)
            stop = last if larger < 0 else larger
            sizes += data[at:stop].translate(_HALVES)
            at = stop
            if at < last:
                said, at = _number(data, at)
                sizes.append(said)
    return sizes, groups


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
        self._left_out = 0
        self._end = 0  # of the last section that is known
        self._kind = -1
        self._ends: list[int] = []  # of the attributes, in their section

    def write(self, piece: bytes) -> None:
        if len(piece) >= _LARGE_PIECE:
            self.find_sections()
            if self._at + len(piece) <= self._end and self._are_elements(len(piece)):
                self.gaps.append((len(self.data), len(piece)))
                self._left_out += len(piece)
                return
        self.data += piece

    @property
    def _at(self) -> int:
        """How much was written."""
        return len(self.data) + self._left_out

    def _are_elements(self, size: int) -> bool:
        """Whether what is written next, of so many bytes, is nothing but elements.

        So is a piece of one attribute. Small attributes may be written as one large piece too.
        """
        if self._kind != _ATTRIBUTES:
            return self._kind == _RESOURCES
        if not self._ends:
            sizes, _ = _read_sizes(self.data, self.sections[_OFFSETS][0])
            self._ends = list(accumulate(said >> 1 for said in sizes))
        begin = self._at - self.sections[_ATTRIBUTES][0]
        attribute = bisect_right(self._ends, begin)
        return attribute < len(self._ends) and begin + size <= self._ends[attribute]

    def find_sections(self) -> None:
        """Goes on to the section that is being written."""
        data = self.data
        left_out = self._left_out
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
        at, size = self._sections[_STRINGS]
        self._strings = strings_of(self._data, at, at + size)
        at, size = self._sections[_DIALECTS]
        dialects, self.names = dialects_and_operations(self._data, at, at + size, self._strings)
        self._builtin_dialect = dialects.index(b"builtin")
        self._starts: list[int] = []
        self._files: dict[int, bytes | None] = {}
        # Of each attribute that is a place: the number of its file, its line, its column; of others
        # the first is -1.
        self._places: list[list[int]] = []
        apart = {kind for kind, name in enumerate(self.names) if name in WITH_OWN_REGIONS}
        self.body, self.holders = _read(self._data, self._sections[_IR][0], apart)
        self.body.stands_for(module.body)

    def close(self) -> None:
        """Takes the bodies apart, which refer to each other: their memory is free at once."""
        for holders in self.holders.values():
            for body, _, _ in holders:
                body.entries.clear()
        self.body.entries.clear()

    def place(self, location: int) -> tuple[bytes, int, int, bytes | None] | None:
        """The file, line and column of a location, and its name; None if it is of another kind."""
        data, starts = self._data, self._starts or self._read_starts()
        at, name = starts[location], None
        if at >= 0 and data[at] == _NAME_LOCATION:
            said, at = _number(data, at + 1)
            location, _ = _number(data, at)
            name, at = self._text(said), starts[location]
            if name is None:
                return None
        if at >= 0 and data[at] == _UNKNOWN_LOCATION:
            return b"", 0, 0, name
        said, line, column = (each[location] for each in self._places)
        file = self._file(said)
        return None if file is None else (file, line, column, name)

    def places(self, locations: Sequence[int]) -> tuple[bytes, list[int], list[int]] | None:
        """The file, the lines and the columns of locations that have no names; None unless all of
        them are such, and of one file.

        It takes 0.1 us for each, and `place` 0.7.
        """
        if not self._starts:
            self._read_starts()
        files, lines, columns = (list(map(each.__getitem__, locations)) for each in self._places)
        file = self._file(files[0]) if len(set(files)) == 1 else None
        return None if file is None else (file, lines, columns)

    def _file(self, attribute: int) -> bytes | None:
        """The name of a file; None if there is none."""
        if attribute < 0:
            return None
        if attribute not in self._files:
            self._files[attribute] = self._text(attribute)
        return self._files[attribute]

    def _text(self, attribute: int) -> bytes | None:
        """The text of an attribute; None of one that is none."""
        at = self._starts[attribute]
        if at < 0 or self._data[at] != _STRING:
            return None
        number, _ = _number(self._data, at + 1)
        return self._strings[number]

    def _read_starts(self) -> list[int]:
        """Where each attribute begins; -1 for one that is text, or not the builtin dialect's, or so
        large that a part of it may not be there.
        """
        said, groups = _read_sizes(self._data, self._sections[_OFFSETS][0])
        encoded = np.array(said, np.int64)
        sizes = encoded >> 1
        begins = np.cumsum(sizes) - sizes + self._sections[_ATTRIBUTES][0]
        gone = np.cumsum([0, *(size for _, size in self._gaps)])
        gaps = np.array([at for at, _ in self._gaps], np.int64) + gone[:-1]
        of_groups = np.array([dialect == self._builtin_dialect for dialect, _ in groups], np.bool_)
        is_builtin = np.repeat(of_groups, [count for _, count in groups])
        is_known = (encoded & 1 == 1) & is_builtin & (sizes < _LARGE_PIECE)
        starts = np.where(is_known, begins - gone[np.searchsorted(gaps, begins)], -1)
        self._starts = starts.tolist()
        self._read_places(starts)
        return self._starts

    def _read_places(self, starts: np.ndarray[Any, Any]) -> None:
        """Enters the file, line and column of locations that have these.

        All at once, in a fifth of the time that it takes one by one.
        """
        # Of each byte the 8 that begin with it, as one number.
        words = np.ndarray(len(self._data), "<u8", self._data + bytes(8), strides=(1,))
        is_place = (starts >= 0) & (words[starts] & 0xFF == _FILE_LOCATION)
        numbers = np.flatnonzero(is_place)
        at = starts[numbers] + 1
        self._places = []
        for _ in range(3):
            word = words[at]
            width = _WIDTHS[word & 0xFF]
            said = np.full(len(starts), -1)
            said[numbers] = (word & _BITS[width]) >> width
            self._places.append(said.tolist())
            at += width.astype(np.intp)


class _Frame:
    """An operation whose regions are being read.

    Attributes:
        body: what it stands in.
        left: how many operations come after it there.
        head: what was read of it.
        first: the number of the first value of its regions.
        regions: how many of them are still to be read.
        blocks: how many blocks are, of the region that is being read.
        key: what operations with regions that are alike have in common; None if there may be none.
        inner: the bodies of its regions.
    """

    __slots__ = ("blocks", "body", "first", "head", "inner", "key", "left", "regions")

    def __init__(self, body: Body, left: int, head: _Head, said: int, key: _Key | None) -> None:
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

_Key = tuple[int, tuple[int, ...], tuple[int, ...], bytes]
"""The number of an operation's name, those of the types of its results and its operands, and the
bytes of its regions."""


def _read(data: bytes, at: int, apart: Collection[int]) -> tuple[Body, dict[int, list[Holder]]]:
    """The body of the module, and by their positions the holders inside its functions.

    Args:
        at: where the IR section begins: with a block whose one operation is the module.
        apart: the numbers of `WITH_OWN_REGIONS`.
    """
    body = Body(0, 0, None)
    left, at = _read_block_head(data, at, body)
    entries, types = body.entries, body.types
    frames: list[_Frame] = []
    holders: dict[int, list[Holder]] = {}
    inside: list[Holder] = []
    # Of a function: regions that use nothing from outside and consist of the same bytes are one.
    # And those that differ in their locations only, as in a text.
    alike: dict[_Key, tuple[Body, ...]] = {}
    # By the bits that say all else, and what these are.
    located: dict[Hashable, dict[int, dict[int, tuple[Body, ...]]]] = {}
    while True:
        # Most numbers are of one byte, and those of values and locations of two or three. Reading
        # these here halves the time.
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
            elif byte & 2:
                location = (byte | data[at + 2] << 8) >> 2
                at += 3
            elif byte & 4:
                location = (byte | data[at + 2] << 8 | data[at + 3] << 16) >> 3
                at += 4
            else:
                location, at = _number(data, at + 1)
            attributes = properties = -1
            if has & _HAS_ATTRIBUTES:
                attributes, at = _number(data, at)
            if has & _HAS_PROPERTIES:
                byte = data[at]
                if byte & 1:
                    properties = byte >> 1
                    at += 1
                else:
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
                byte = data[at]
                if byte & 1:
                    count = byte >> 1
                    at += 1
                else:
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
                    elif byte & 4:
                        operands.append((byte | data[at + 1] << 8 | data[at + 2] << 16) >> 3)
                        at += 3
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
                    key: _Key | None = None
                    if said & 1:
                        size, at = _number(data, at + 1)
                        if len(frames) > 1:
                            of_operands = tuple(map(body.type_of, operands))
                            code = data[at : at + size]
                            key = kind, tuple(results), of_operands, code
                            known = alike.get(key)
                            if known is None and kind not in apart:
                                # It saves 4 us a region to see here that it is a known one.
                                number = int.from_bytes(code, "little")
                                for mask, same in located.get((*key[:3], size), {}).items():
                                    known = known or same.get(number & mask)
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
                if frame.head[0] not in apart:
                    _keep_without_locations(located, frame.key, inner)
            body, left = frame.body, frame.left
            inside.append((body, len(body.entries), inner))
            body.entries.append((*frame.head, inner))
            if len(frames) == 1:
                inside.pop()  # the function itself
                holders[len(body.entries) - 1] = inside
                inside = []
                alike.clear()
                located.clear()
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


def _keep_without_locations(
    located: dict[Hashable, dict[int, dict[int, tuple[Body, ...]]]],
    key: _Key,
    inner: tuple[Body, ...],
) -> None:
    """Enters the bodies of regions to be found again where locations are others."""
    *others, code = key
    mask = _without_locations(code)
    if mask is not None:
        masks = located.setdefault((*others, len(code)), {})
        if mask in masks or len(masks) < _MOST_MASKS:
            number = int.from_bytes(code, "little")
            masks.setdefault(mask, {}).setdefault(number & mask, inner)


def _without_locations(code: bytes) -> int | None:
    """The bits of regions that say all but their locations, the lowest byte first.

    Where two differ in other bits only, they are the same but for locations. (Of a location the
    bits are among these that say how many bytes it has.)

    None where a region has more than one block, or regions inside.
    """
    mask = bytearray(b"\xff" * len(code))

    def behind_location(at: int) -> int:
        _, end = _number(code, at)
        mask[at:end] = bytes(end - at)
        mask[at] = min((1 << end - at) - 1, 0xFF)
        return end

    at = 0
    while at < len(code):
        blocks, at = _number(code, at)
        _, at = _number(code, at)  # how many values there are
        said, at = _number(code, at)
        if blocks != 1:
            return None
        if said & 1:
            count, at = _number(code, at)
            for _ in range(count):
                kind, at = _number(code, at)
                if kind & 1:
                    at = behind_location(at)
            if code[at]:
                return None
            at += 1
        for _ in range(said >> 1):
            _, at = _number(code, at)
            has = code[at]
            if has & _HAS_MORE:
                return None
            at = behind_location(at + 1)
            for part in (_HAS_ATTRIBUTES, _HAS_PROPERTIES):
                if has & part:
                    _, at = _number(code, at)
            for part in (_HAS_RESULTS, _HAS_OPERANDS):
                if has & part:
                    _, at = _numbers(code, at)
    return int.from_bytes(mask, "little")


def _read_block_head(data: bytes, at: int, body: Body) -> tuple[int, int]:
    """How many operations a block has, and where they begin; enters its arguments."""
    said, at = _number(data, at)
    if said & 1:
        count, at = _number(data, at)
        for _ in range(count):
            kind, at = _number(data, at)
            body.types.append(kind >> 1)
            place = -1
            if kind & 1:
                place, at = _number(data, at)
            body.argument_places.append(place)
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
