"""MLIR bytecode, written: how a module gets from Python into MLIR in one piece.

MLIR reads a module from its bytecode in a quarter of the time that Python takes to create the same
operations one by one through the bindings, and attributes and types are looked up once for a module
and not once for an operation. The format is documented and stable (MLIR: Bytecode Format); what is
written here is its version 1, the simplest one that names dialects without versions, and every
later reader reads it. Attributes and types stand in it as their MLIR text. Only what comes in
masses has the shorter encodings of MLIR's builtin dialect: dictionaries, names, source lines and
the elements of constants.

Everything is referred to by its number in a table, in a variable number of bytes. Such a reference
is a `bytes` here, so that to write an operation is to string references together.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final

import numpy as np

from builder.types.shape import ArrayShape
from lowering.mlir.attributes import Attribute, DenseElements
from lowering.mlir.types import type_text

__all__ = [
    "HAS_ATTRIBUTES",
    "HAS_OPERANDS",
    "HAS_REGIONS",
    "HAS_RESULTS",
    "SMALL_BYTES",
    "BytecodeWriter",
    "Pieces",
    "Reference",
    "number_of",
    "reference",
    "references",
]

Reference = bytes
"""The number of a value, type, attribute or operation name, encoded."""

Pieces = list[bytes | bytearray | memoryview]
"""What is written, in order, to be joined at the end."""

# What an operation has, as bits of the byte after its name.
HAS_ATTRIBUTES: Final = 0x01
HAS_RESULTS: Final = 0x02
HAS_OPERANDS: Final = 0x04
HAS_REGIONS: Final = 0x10

SMALL_BYTES: Final = 1024
"""What is smaller is copied in less time than it takes to look at it without a copy."""

_MAGIC: Final = b"ML\xefR"
_VERSION: Final = 1
_PRODUCER: Final = b"xlabuilder\0"

# The kinds of sections, in their order.
_STRINGS, _DIALECTS, _ENTRIES, _OFFSETS, _IR = range(5)

# How the builtin dialect encodes attributes.
_ARRAY: Final = b"\x01"
_DICTIONARY: Final = b"\x03"
_STRING: Final = b"\x05"
_FILE_LOCATION: Final = b"\x17"
_NAME_LOCATION: Final = b"\x1d"
_UNKNOWN_LOCATION: Final = b"\x1f"
_NUMBERS: Final = b"\x23"
_DENSE_ELEMENTS: Final = b"\x25"


def _varint(value: int) -> bytes:
    """A number in 1 to 9 bytes: the zeros below the lowest 1 tell how many bytes follow."""
    if value < 1 << 7:
        return bytes((value << 1 | 1,))
    size = (value.bit_length() + 6) // 7
    if size < 9:
        return ((value << 1 | 1) << size - 1).to_bytes(size, "little")
    return b"\0" + value.to_bytes(8, "little")


class _References(dict[int, Reference]):
    """Numbers and their encodings: to make one takes 0.35 us, to look it up 0.05 us."""

    def __missing__(self, number: int) -> Reference:
        made = _varint(number)
        if number < 1 << 14:
            self[number] = made
        return made


reference: Final[Callable[[int], Reference]] = _References().__getitem__
"""The number encoded, in 1 to 9 bytes: what is entered first takes least."""

_TO_BYTES: Final[Callable[[int, int, Any], bytes]] = int.to_bytes


def references(start: int) -> Iterator[Reference]:
    """The numbers from `start` on, encoded, without end."""

    def runs(start: int) -> Iterator[Iterator[Reference]]:
        for size in range(1, 9):
            first, last = (start << 1 | 1) << size - 1, 1 << 8 * size
            numbers = range(first, last, 1 << size)
            yield map(_TO_BYTES, numbers, repeat(size), repeat("little"))
            start = max(start, 1 << 7 * size)

    # Iterators that run in C: to take one takes 0.1 us, and to make one by `reference` 0.35 us.
    return chain.from_iterable(runs(start))


def number_of(encoded: Reference) -> int:
    """The number that a reference (of at most 8 bytes) encodes."""
    return int.from_bytes(encoded, "little") >> len(encoded)


class BytecodeWriter:
    """The tables of one module: what its operations refer to by number.

    Each method enters something, unless it is there already, and gives the reference to it.

    Attributes:
        constant_bytes: how large the elements of all constants are together.
    """

    __slots__ = (
        "_attributes",
        "_before",
        "_before_numbers",
        "_entries",
        "_names",
        "_offsets",
        "_strings",
        "_texts",
        "_types",
        "constant_bytes",
    )

    def __init__(self) -> None:
        self._strings: dict[str, int] = {}
        self._texts: dict[str, Reference] = {}
        self._names: dict[str, Reference] = {}
        self._types: dict[str, Reference] = {}
        # Of attributes: by what was given, or by the builtin dialect's encoding; what is written;
        # and for each its size, and whether it is encoded.
        self._attributes: dict[Attribute | bytes, Reference] = {}
        self._entries: list[bytes | memoryview] = []
        self._offsets: list[Reference] = []
        self.constant_bytes = 0
        # Of dictionaries of one attribute, by its name: all but the value.
        self._before: dict[str, bytes] = {}
        # Of lists of so many numbers, what stands before these, and what encodes them.
        self._before_numbers: dict[int, tuple[bytes, Callable[..., bytes]]] = {}

    def _string(self, text: str) -> Reference:
        return reference(self._strings.setdefault(text, len(self._strings)))

    def operation_name(self, name: str) -> Reference:
        """An operation's full name, such as "stablehlo.add"."""
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = reference(len(self._names))
        return found

    def type(self, text: str) -> Reference:
        """A type by its MLIR text."""
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = reference(len(self._types))
        return found

    def attribute(self, attribute: Attribute) -> Reference:
        """An attribute by its MLIR text, or the elements of an array; what is entered stays."""
        if isinstance(attribute, bytes):
            return attribute
        found = self._attributes.get(attribute)
        if found is None:
            if isinstance(attribute, tuple):
                found = self._attributes[attribute] = self._encoded(self._numbers(attribute))
                return found
            found = self._attributes[attribute] = reference(len(self._offsets))
            if isinstance(attribute, str):
                text = attribute.encode() + b"\0"
                self._entries.append(text)
                self._offsets.append(reference(len(text) << 1))
            else:
                self._enter_elements(attribute)
        return found

    def _numbers(self, values: tuple[int, ...]) -> bytes:
        """The encoding of a list of 64-bit integers: MLIR reads it five times as fast as text."""
        found = self._before_numbers.get(len(values))
        if found is None:
            form = struct.Struct(f"<{len(values)}q")
            head = _NUMBERS + self.type("i64") + reference(len(values)) + reference(form.size)
            found = self._before_numbers[len(values)] = head, form.pack
        head, pack = found
        return head + pack(*values)

    def _enter_elements(self, elements: DenseElements) -> None:
        array = elements.array
        self.constant_bytes += array.nbytes
        head, size = self.before_elements(elements.shape, array.nbytes)
        if array.nbytes < SMALL_BYTES:
            self._entries.append(head + array.tobytes())
        else:
            # No copy. (Of ml_dtypes there is no buffer.)
            self._entries += head, np.ravel(array).view(np.uint8).data
        self._offsets.append(size)

    def _encoded(self, encoding: bytes) -> Reference:
        """An attribute in the encoding of the builtin dialect."""
        found = self._attributes.get(encoding)
        if found is None:
            found = self._attributes[encoding] = self._new(encoding)
        return found

    def _new(self, encoding: bytes) -> Reference:
        """The same of one that is known not to be there."""
        number = reference(len(self._offsets))
        self._entries.append(encoding)
        self._offsets.append(reference(len(encoding) << 1 | 1))
        return number

    def text(self, text: str) -> Reference:
        """A string attribute."""
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = self._new(_STRING + self._string(text))
        return found

    def array(self, attributes: Sequence[Reference]) -> Reference:
        """An array of attributes that are entered already."""
        return self._encoded(_ARRAY + reference(len(attributes)) + b"".join(attributes))

    def only(self, name: str, value: Reference) -> Reference:
        """The attributes of what has one, of this name, whose value is entered already."""
        return self._encoded(self._before_only(name) + value)

    def _before_only(self, name: str) -> bytes:
        before = self._before.get(name)
        if before is None:
            before = self._before[name] = _DICTIONARY + reference(1) + self.text(name)
        return before

    def value(self, attribute: Attribute) -> Reference:
        """The attributes of a constant: its value."""
        return self.only("value", self.attribute(attribute))

    def before_elements(self, shape: ArrayShape, size: int) -> tuple[bytes, Reference]:
        """What stands before elements of so many bytes, and the size of both."""
        head = _DENSE_ELEMENTS + self.type(type_text(shape)) + reference(size)
        return head, reference((len(head) + size) << 1 | 1)

    def value_of_elements(
        self, before: tuple[bytes, Reference], array: np.ndarray[Any, Any]
    ) -> Reference:
        """The same of elements that are entered anew, whatever else there is.

        Looking whether they are there takes longer than all of this: of thousands of small arrays
        each takes 1 us, and not 4.5 us.

        Args:
            before: what `before_elements` gave for arrays of this shape.
            array: as `DenseElements` has it. It is copied here.
        """
        head, offset = before
        elements = array.tobytes()
        self.constant_bytes += len(elements)
        before_value = self._before_only("value")  # which may enter the name
        offsets = self._offsets
        number = len(offsets)
        encoding = before_value + reference(number)
        self._entries += head, elements, encoding
        offsets += offset, reference(len(encoding) << 1 | 1)
        return reference(number + 1)

    def dictionary(self, attributes: Mapping[str, Attribute]) -> Reference:
        """The attributes of an operation, by name."""
        encoding = _DICTIONARY + reference(len(attributes))
        for name, attribute in attributes.items():
            encoding += self.text(name) + self.attribute(attribute)
        return self._encoded(encoding)

    def unknown_location(self) -> Reference:
        """The location of what nobody wrote."""
        return self._encoded(_UNKNOWN_LOCATION)

    def file_location(self, file: str, line: int, column: int) -> Reference:
        """A place in a source file, lines and columns counted from 1."""
        return self._encoded(_FILE_LOCATION + self.text(file) + reference(line) + reference(column))

    def name_location(self, name: str, place: Reference) -> Reference:
        """A name for people, and the location of what has it."""
        return self.located(self.text(name), place)

    def located(self, name: Reference, place: Reference) -> Reference:
        """The same for a name that is entered already."""
        return self._encoded(_NAME_LOCATION + name + place)

    def module(self, operation: Pieces) -> bytes:
        """The whole file.

        Args:
            operation: the encoding of the module operation.
        """
        # Dialects have their names, and operations theirs within them, from the strings too: the
        # strings, which are written first, are joined last.
        dialects = self._dialects()
        types = [text.encode() + b"\0" for text in self._types]
        texts = [text.encode() + b"\0" for text in self._strings]
        lengths = [reference(len(text)) for text in reversed(texts)]
        return b"".join(
            (
                _MAGIC,
                reference(_VERSION),
                _PRODUCER,
                *_section(_STRINGS, [reference(len(texts)), *lengths, *texts]),
                *_section(_DIALECTS, dialects),
                *_section(_ENTRIES, [*self._entries, *types]),
                *_section(_OFFSETS, self._sizes(types)),
                *_section(_IR, [reference(1 << 1), *operation]),
            )
        )

    def _dialects(self) -> Pieces:
        """The dialects, builtin first, and the names of the operations of each."""
        numbers = {"builtin": 0}
        operations: Pieces = []
        for name in self._names:
            # Operations are numbered in the order in which they stand here: each in a group of
            # its own, so that those of a dialect need not stand together.
            dialect, _, bare = name.partition(".")
            number = numbers.setdefault(dialect, len(numbers))
            operations += reference(number), reference(1), self._string(bare)
        unversioned = [
            reference(self._strings.setdefault(d, len(self._strings)) << 1) for d in numbers
        ]
        return [reference(len(numbers)), *unversioned, *operations]

    def _sizes(self, types: Sequence[bytes]) -> Pieces:
        """The size of each attribute and each type, in a group of attributes and one of types.

        They are of the builtin dialect, as far as need be: text says itself of which it is.
        """
        pieces: Pieces = [reference(len(self._offsets)), reference(len(types))]
        for sizes in (self._offsets, [reference(len(text) << 1) for text in types]):
            if sizes:
                pieces += reference(0), reference(len(sizes)), *sizes
        return pieces


def _section(kind: int, pieces: Pieces) -> Pieces:
    return [bytes((kind,)), reference(sum(map(len, pieces))), *pieces]
