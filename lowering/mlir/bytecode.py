"""Write MLIR bytecode, from which MLIR creates a module in one step.

Parsing bytecode is several times faster than creating the operations through the Python bindings,
and attributes and types are uniqued once for the module instead of once for each operation.

The format is documented and stable (MLIR: Bytecode Format). This module writes version 1, which
all later versions of MLIR read. Most attributes and types are encoded as MLIR text. Frequent
attributes use the shorter encodings of MLIR's builtin dialect: dictionaries, strings, source
locations, integer arrays and the elements of constants.

Bytecode refers to table entries by number, in a variable number of bytes. Such a reference is a
`bytes` object here, so an operation is a concatenation of references.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final

import numpy as np

from builder.types.shape import ArrayShape
from lowering.mlir.attributes import Attribute, DenseElements
from lowering.mlir.types import type_text

Reference = bytes
"""The encoded number of a value, type, attribute or operation name."""

Pieces = list[bytes | bytearray | memoryview]
"""Consecutive parts of the bytecode, which `BytecodeWriter.module` joins."""

# The parts of an operation, as bits of the byte after its name.
HAS_ATTRIBUTES: Final = 0x01
HAS_RESULTS: Final = 0x02
HAS_OPERANDS: Final = 0x04
HAS_REGIONS: Final = 0x10

_SMALL_BYTES: Final = 1024
"""Fewer bytes than this are copied, which is faster than creating a memoryview."""

_MAGIC: Final = b"ML\xefR"
_VERSION: Final = 1
_PRODUCER: Final = b"xlabuilder\0"

# The kinds of sections, in the order of the file.
_STRINGS, _DIALECTS, _ENTRIES, _OFFSETS, _IR = range(5)

# The attribute codes of the builtin dialect.
_ARRAY: Final = b"\x01"
_DICTIONARY: Final = b"\x03"
_STRING: Final = b"\x05"
_FILE_LOCATION: Final = b"\x17"
_NAME_LOCATION: Final = b"\x1d"
_UNKNOWN_LOCATION: Final = b"\x1f"
_INTEGERS: Final = b"\x23"
_DENSE_ELEMENTS: Final = b"\x25"


def _varint(value: int) -> bytes:
    """Encode a number in 1 to 9 bytes; the first byte's trailing zeros count the other bytes."""
    if value < 1 << 7:
        return bytes((value << 1 | 1,))
    size = (value.bit_length() + 6) // 7
    if size < 9:
        return ((value << 1 | 1) << size - 1).to_bytes(size, "little")
    return b"\0" + value.to_bytes(8, "little")


class _References(dict[int, Reference]):
    """A cache of encoded small numbers: a lookup is several times faster than encoding."""

    def __missing__(self, number: int) -> Reference:
        encoded = _varint(number)
        if number < 1 << 14:
            self[number] = encoded
        return encoded


reference: Final[Callable[[int], Reference]] = _References().__getitem__
"""Return a number encoded in 1 to 9 bytes, from a cache if the number is small."""

_TO_BYTES: Final[Callable[[int, int, Any], bytes]] = int.to_bytes


def references(start: int) -> Iterator[Reference]:
    """Return an endless iterator of the encoded numbers from `start` on."""

    def runs(start: int) -> Iterator[Iterator[Reference]]:
        for size in range(1, 9):
            first, last = (start << 1 | 1) << size - 1, 1 << 8 * size
            numbers = range(first, last, 1 << size)
            yield map(_TO_BYTES, numbers, repeat(size), repeat("little"))
            start = max(start, 1 << 7 * size)

    # These iterators run in C, several times faster than calls of `reference`.
    return chain.from_iterable(runs(start))


def number_of(encoded: Reference) -> int:
    """Decode a reference of at most 8 bytes."""
    return int.from_bytes(encoded, "little") >> len(encoded)


class _Numbered(dict[str, Reference]):
    """A table whose entries are numbered in the order of their first lookup."""

    def __missing__(self, text: str) -> Reference:
        entry = self[text] = reference(len(self))
        return entry


class BytecodeWriter:
    """The tables of one module's bytecode. Operations refer to table entries by number.

    Each method that returns a Reference adds an entry, unless the table has an equal entry. Two
    methods always add entries: `value_of_elements` and `named_arguments`.

    Attributes:
        constant_bytes: the total size of the elements of all constants.
    """

    def __init__(self) -> None:
        self._strings = _Numbered()
        self._texts: dict[str, Reference] = {}
        self._names = _Numbered()
        self._types = _Numbered()
        # Attributes: the references by value or by encoding, the encodings, and the size of each
        # with a flag that is 1 for builtin encodings and 0 for text.
        self._attributes: dict[Attribute | bytes, Reference] = {}
        self._entries: list[bytes | memoryview] = []
        self._offsets: list[Reference] = []
        self.constant_bytes = 0
        # The encoding of a dictionary of one attribute up to the value, by the name.
        self._single_heads: dict[str, bytes] = {}
        # The encoding of integer arrays up to the integers and their packer, by length.
        self._integer_heads: dict[int, tuple[bytes, Callable[..., bytes]]] = {}

    def operation_name(self, name: str) -> Reference:
        """Return the reference to an operation's full name, such as "stablehlo.add"."""
        return self._names[name]

    def type(self, text: str) -> Reference:
        """Return the reference to a type, given in MLIR text."""
        return self._types[text]

    def attribute(self, attribute: Attribute) -> Reference:
        """Return the reference to an attribute; a reference is returned unchanged."""
        if isinstance(attribute, bytes):
            return attribute
        entry = self._attributes.get(attribute)
        if entry is None:
            if isinstance(attribute, tuple):
                entry = self._attributes[attribute] = self._encoded(self._integers(attribute))
                return entry
            entry = self._attributes[attribute] = reference(len(self._offsets))
            if isinstance(attribute, str):
                text = attribute.encode() + b"\0"
                self._entries.append(text)
                self._offsets.append(reference(len(text) << 1))
            else:
                self._add_elements(attribute)
        return entry

    def _integers(self, values: tuple[int, ...]) -> bytes:
        """Encode an array of 64-bit integers; MLIR reads the encoding much faster than text."""
        cached = self._integer_heads.get(len(values))
        if cached is None:
            form = struct.Struct(f"<{len(values)}q")
            head = _INTEGERS + self.type("i64") + reference(len(values)) + reference(form.size)
            cached = self._integer_heads[len(values)] = head, form.pack
        head, pack = cached
        return head + pack(*values)

    def _add_elements(self, elements: DenseElements) -> None:
        array = elements.array
        self.constant_bytes += array.nbytes
        head, size = self.elements_head(elements.shape, array.nbytes)
        if array.nbytes < _SMALL_BYTES:
            self._entries.append(head + array.tobytes())
        else:
            # A view instead of a copy; ml_dtypes arrays do not support the buffer protocol.
            self._entries += head, np.ravel(array).view(np.uint8).data
        self._offsets.append(size)

    def _encoded(self, encoding: bytes) -> Reference:
        """Return the reference to an attribute, given in the encoding of the builtin dialect."""
        entry = self._attributes.get(encoding)
        if entry is None:
            entry = self._attributes[encoding] = self._new(encoding)
        return entry

    def _new(self, encoding: bytes) -> Reference:
        """Add an encoded attribute that the table does not have yet; return its reference."""
        number = reference(len(self._offsets))
        self._entries.append(encoding)
        self._offsets.append(reference(len(encoding) << 1 | 1))
        return number

    def text(self, text: str) -> Reference:
        """Return the reference to a string attribute."""
        entry = self._texts.get(text)
        if entry is None:
            entry = self._texts[text] = self._new(_STRING + self._strings[text])
        return entry

    def array(self, attributes: Sequence[Reference]) -> Reference:
        """Return the reference to an array attribute of these attributes."""
        return self._encoded(_ARRAY + reference(len(attributes)) + b"".join(attributes))

    def _single_head(self, name: str) -> bytes:
        """Return the encoding of a dictionary of one attribute, up to the attribute's value."""
        head = self._single_heads.get(name)
        if head is None:
            head = self._single_heads[name] = _DICTIONARY + reference(1) + self.text(name)
        return head

    def value(self, attribute: Attribute) -> Reference:
        """Return the reference to the dictionary of a constant: {value = `attribute`}."""
        return self._encoded(self._single_head("value") + self.attribute(attribute))

    def elements_head(self, shape: ArrayShape, size: int) -> tuple[bytes, Reference]:
        """Return the encoding that precedes `size` bytes of dense elements, and the encoded size.

        The size is the number of bytes of the entry: the preceding encoding and the elements.
        """
        head = _DENSE_ELEMENTS + self.type(type_text(shape)) + reference(size)
        return head, reference((len(head) + size) << 1 | 1)

    def value_of_elements(
        self, elements_head: tuple[bytes, Reference], array: np.ndarray[Any, Any]
    ) -> Reference:
        """Return the reference to the dictionary of a constant with these few elements.

        Always add an entry: a lookup of an equal entry would take longer.

        Args:
            elements_head: the result of `elements_head` for arrays of this shape.
            array: the elements, as in `DenseElements`; they are copied.
        """
        head, offset = elements_head
        elements = array.tobytes()
        self.constant_bytes += len(elements)
        value_head = self._single_heads.get("value") or self._single_head("value")
        offsets = self._offsets
        number = len(offsets)
        encoding = value_head + reference(number)
        self._entries += head, elements, encoding
        offsets += offset, reference(len(encoding) << 1 | 1)
        return reference(number + 1)

    def dictionary(self, attributes: Mapping[str, Attribute]) -> Reference:
        """Return the reference to a dictionary of attributes by name."""
        encoding = _DICTIONARY + reference(len(attributes))
        for name, attribute in attributes.items():
            encoding += self.text(name) + self.attribute(attribute)
        return self._encoded(encoding)

    def unknown_location(self) -> Reference:
        """Return the reference to the location of an operation without a source position."""
        return self._encoded(_UNKNOWN_LOCATION)

    def file_location(self, file: str, line: int, column: int) -> Reference:
        """Return the reference to a position in a file; lines and columns count from 1."""
        return self._encoded(_FILE_LOCATION + self.text(file) + reference(line) + reference(column))

    def name_location(self, name: str, place: Reference) -> Reference:
        """Return the reference to a location that adds a name to the location `place`."""
        return self._encoded(_NAME_LOCATION + self.text(name) + place)

    def named_arguments(
        self, attribute: str, names: Iterable[str], places: Iterable[Reference]
    ) -> tuple[list[Reference], list[Reference]]:
        """Return references to the dictionaries ``{attribute: name}`` and to the named locations.

        Networks have thousands of arguments, so the entries are made in one loop. They are always
        added: no two arguments have one name, and a lookup would take longer.

        Args:
            attribute: the name of the attribute of each argument.
            names: the name of each argument.
            places: the location of each argument, without the name.
        """
        head = self._single_head(attribute)
        entries, offsets = self._entries, self._offsets
        dictionaries: list[Reference] = []
        locations: list[Reference] = []
        for name, place in zip(names, places, strict=True):
            text = self.text(name)
            dictionary, location = head + text, _NAME_LOCATION + text + place
            number = len(offsets)
            dictionaries.append(reference(number))
            locations.append(reference(number + 1))
            entries += dictionary, location
            offsets += reference(len(dictionary) << 1 | 1), reference(len(location) << 1 | 1)
        return dictionaries, locations

    def module(self, operation: Pieces) -> bytes:
        """Return the bytecode file of a module.

        Args:
            operation: the encoding of the module operation.
        """
        # The dialect section adds strings, so the string section is built after it.
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
        """Return the content of the dialect section: dialects, builtin first, and op names."""
        numbers = {"builtin": 0}
        operations: Pieces = []
        for name in self._names:
            # Operations are numbered in the order of this section. Each has a group of its own,
            # so that operations of a dialect need not be adjacent.
            dialect, _, bare = name.partition(".")
            number = numbers.setdefault(dialect, len(numbers))
            operations += reference(number), reference(1), self._strings[bare]
        # No dialect has a version, so the lowest bit is 0.
        unversioned = [reference(number_of(self._strings[dialect]) << 1) for dialect in numbers]
        return [reference(len(numbers)), *unversioned, *operations]

    def _sizes(self, types: Sequence[bytes]) -> Pieces:
        """Return the content of the section with the sizes of attributes and types.

        The attributes are one group and the types another. Both groups are of the builtin dialect;
        an entry in MLIR text names its own dialect.
        """
        pieces: Pieces = [reference(len(self._offsets)), reference(len(types))]
        for sizes in (self._offsets, [reference(len(text) << 1) for text in types]):
            if sizes:
                pieces += reference(0), reference(len(sizes)), *sizes
        return pieces


def _section(kind: int, pieces: Pieces) -> Pieces:
    return [bytes((kind,)), reference(sum(map(len, pieces))), *pieces]
