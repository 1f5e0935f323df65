"""Read and change protocol buffers without their schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2
_FIXED_SIZES: Final = {1: 8, 5: 4}
"""The size in bytes of a field's value, by wire type, for the wire types of fixed size."""


def fields_of(data: bytes | memoryview) -> dict[int, list[memoryview]]:
    """Return the encoded values of a protocol buffer's fields, by field number.

    Raises:
        IndexError: the bytes are not a protocol buffer.
    """
    fields: dict[int, list[memoryview]] = {}
    for number, _, value in _entries(memoryview(data)):
        fields.setdefault(number, []).append(value)
    return fields


def _entries(data: memoryview) -> list[tuple[int, memoryview, memoryview]]:
    """Return the number, the encoding and the encoded value of each field, in order."""
    entries = []
    position = 0
    while position < len(data):
        first = position
        tag, position = varint(data, position)
        start = position
        if tag & 7 == _LENGTH_DELIMITED:
            size, start = varint(data, position)
            position = start + size
        elif tag & 7 == _VARINT:
            _, position = varint(data, position)
        elif tag & 7 in _FIXED_SIZES:
            position += _FIXED_SIZES[tag & 7]
        else:
            raise IndexError
        entries.append((tag >> 3, data[first:position], data[start:position]))
    if position != len(data):
        raise IndexError
    return entries


def varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return the variable-width number at a position, and the position after the number."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def numbers_in(values: Iterable[memoryview]) -> list[int]:
    """Return the numbers of a repeated field from its encoded values, packed or not."""
    numbers = []
    for packed in values:
        position = 0
        while position < len(packed):
            number, position = varint(packed, position)
            numbers.append(number)
    return numbers


def encoded_number(value: int) -> bytes:
    """Return the variable-width encoding of a number.

    Example:
        >>> encoded_number(300)
        b'\\xac\\x02'
    """
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def encoded_field(number: int, content: bytes) -> bytes:
    """Return the encoding of a field whose value is a message, text or packed numbers."""
    tag = encoded_number(number << 3 | _LENGTH_DELIMITED)
    return b"%b%b%b" % (tag, encoded_number(len(content)), content)


def replaced(
    message: memoryview, path: Sequence[int], replacement: Callable[[memoryview], bytes]
) -> bytes:
    """Return a protocol buffer with the fields at a path replaced.

    Args:
        message: the encoded protocol buffer.
        path: the field numbers from the outermost message to the fields to replace.
        replacement: a function of the encoded value of an old field, which returns the encoding of
            the new field.

    Raises:
        IndexError: the bytes are not a protocol buffer.
    """
    number, *rest = path
    pieces: list[bytes | memoryview] = []
    for key, encoding, value in _entries(message):
        if key != number:
            pieces.append(encoding)
        elif rest:
            pieces.append(encoded_field(number, replaced(value, rest, replacement)))
        else:
            pieces.append(replacement(value))
    return b"".join(pieces)
