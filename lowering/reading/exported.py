"""Find the module inside the output of `jax.export.Exported.serialize`, and its platforms.

The output is a FlatBuffers table with the module's portable artifact in one field, and the names of
platforms in another. The other fields (trees of arguments, shardings, derivatives) belong to jax.
jax reads the table with a package that may not be installed; finding a field takes four steps.

FlatBuffers Internals: Tables; Vectors; Strings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowering.jaxlib_api.mlir import BYTECODE_MAGIC

_PLATFORMS: Final = 22
_MODULE: Final = 30
"""The positions of the entries of the 10th and the 14th field in the table of offsets.

FlatBuffers tables never change the position of a field."""

_MAX_PLATFORMS: Final = 16


class _Table:
    """The root table of FlatBuffers data.

    Args:
        part: returns the bytes at a position, given the position and the size.
        total: the number of bytes.
    """

    def __init__(self, part: Callable[[int, int], bytes], total: int) -> None:
        self._part: Final = part
        self._total: Final = total
        self._table: Final = self._number(0, 4)
        self._offsets: Final = self._table - self._number(self._table, 4, signed=True)

    def _number(self, at: int, size: int, *, signed: bool = False) -> int:
        if not 0 <= at <= self._total - size:
            raise IndexError
        return int.from_bytes(self._part(at, size), "little", signed=signed)

    def vector(self, entry: int) -> tuple[int, int] | None:
        """Return the position and the length of a field's vector; None if the field is absent.

        Raises:
            IndexError: the vector is outside the data.
        """
        if self._number(self._offsets, 2) < entry + 2:
            return None
        offset = self._number(self._offsets + entry, 2)
        return self.sized(self._table + offset) if offset else None

    def sized(self, at: int) -> tuple[int, int]:
        """Return the position and the length of the vector or string whose offset is at `at`."""
        place = at + self._number(at, 4)
        return place + 4, self._number(place, 4)


def embedded_artifact(data: bytes) -> bytes | None:
    """Return the portable artifact in a serialized Exported, or None for other bytes."""
    place = place_of_module(lambda at, size: data[at : at + size], len(data))
    return None if place is None else data[place[0] : place[0] + place[1]]


def place_of_module(part: Callable[[int, int], bytes], total: int) -> tuple[int, int] | None:
    """Return the position and size of the portable artifact in a serialized Exported.

    Args:
        part: returns the bytes at a position, given the position and the size.
        total: the number of bytes.
    """
    if part(0, len(BYTECODE_MAGIC)) == BYTECODE_MAGIC:
        return None
    try:
        place = _Table(part, total).vector(_MODULE)
    except IndexError:
        return None
    if place is None:
        return None
    begin, length = place
    if part(begin, len(BYTECODE_MAGIC)) != BYTECODE_MAGIC or begin + length > total:
        return None
    return begin, length


def platforms_of(data: bytes) -> tuple[str, ...]:
    """Return jax's names of the platforms of a serialized Exported; empty if it is damaged."""
    try:
        table = _Table(lambda at, size: data[at : at + size], len(data))
        begin, count = table.vector(_PLATFORMS) or (0, 0)
        if count > _MAX_PLATFORMS:
            return ()
        places = [table.sized(begin + 4 * number) for number in range(count)]
        if any(at + size > len(data) for at, size in places):
            return ()
        return tuple(data[at : at + size].decode() for at, size in places)
    except (IndexError, UnicodeDecodeError):
        return ()
