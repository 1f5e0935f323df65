"""Find the module inside the output of `jax.export.Exported.serialize`, and its platforms.

The output is a FlatBuffers table. One field is the module's portable artifact, and another field is
the names of the platforms. Only jax uses the remaining fields (trees of arguments, shardings,
derivatives). jax reads the table with the package flatbuffers, which may not be installed. This
module does not need it.

FlatBuffers Internals: Tables; Vectors; Strings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowering.jaxlib_api.mlir import BYTECODE_MAGIC

_PLATFORMS: Final = 22
_MODULE: Final = 30
"""The positions of two fields (the 10th and the 14th) in the FlatBuffers table of field offsets.

These positions are the same in all versions of jax: a FlatBuffers schema never moves a field."""

_MAX_PLATFORMS: Final = 16


class _Table:
    """The root table of FlatBuffers data.

    Args:
        part: a function that returns bytes of the data, given their position and number.
        total: the size of the data in bytes.
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

        Args:
            entry: the position of the field in the table of offsets.

        Raises:
            IndexError: the vector is outside the data.
        """
        if self._number(self._offsets, 2) < entry + 2:
            return None
        offset = self._number(self._offsets + entry, 2)
        return self.sized(self._table + offset) if offset else None

    def sized(self, at: int) -> tuple[int, int]:
        """Return the position and the length of a vector or string, whose offset is at `at`."""
        place = at + self._number(at, 4)
        return place + 4, self._number(place, 4)


def embedded_artifact(data: bytes) -> bytes | None:
    """Return the portable artifact in a serialized Exported; None if `data` is not an Exported."""
    place = place_of_module(lambda at, size: data[at : at + size], len(data))
    return None if place is None else data[place[0] : place[0] + place[1]]


def place_of_module(part: Callable[[int, int], bytes], total: int) -> tuple[int, int] | None:
    """Return the position and size of the portable artifact in a serialized Exported.

    Return None if the data is not a serialized Exported.

    Args:
        part: a function that returns bytes of the data, given their position and number.
        total: the size of the data in bytes.
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
    """Return the platforms of a serialized Exported, as jax names them; empty if it is damaged."""
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
