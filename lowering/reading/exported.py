"""Find the module inside the output of `jax.export.Exported.serialize`.

The output is a FlatBuffers table with the module's portable artifact in one field. The other fields
(trees of arguments, shardings, derivatives) belong to jax. jax reads the table with a package that
may not be installed; finding one field takes four steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowering.jaxlib_api.mlir import BYTECODE_MAGIC

_MODULE: Final = 30
"""The position of the module's entry, the 14th field, in the table of offsets.

FlatBuffers tables never change the position of a field."""


def embedded_artifact(data: bytes) -> bytes | None:
    """Return the portable artifact in a serialized Exported, or None for other bytes."""
    place = place_of_module(lambda at, size: data[at : at + size], len(data))
    return None if place is None else data[place[0] : place[0] + place[1]]


def place_of_module(part: Callable[[int, int], bytes], total: int) -> tuple[int, int] | None:
    """Return the position and size of the portable artifact in a serialized Exported.

    Args:
        part: returns the bytes at a position, given the position and the size.
        total: the number of bytes.

    FlatBuffers Internals: Tables; Vectors.
    """

    def number(at: int, size: int, *, signed: bool = False) -> int:
        if not 0 <= at <= total - size:
            raise IndexError
        return int.from_bytes(part(at, size), "little", signed=signed)

    if part(0, len(BYTECODE_MAGIC)) == BYTECODE_MAGIC:
        return None
    try:
        table = number(0, 4)
        offsets = table - number(table, 4, signed=True)
        if number(offsets, 2) < _MODULE + 2:
            return None
        field = table + number(offsets + _MODULE, 2)
        vector = field + number(field, 4)
        begin, length = vector + 4, number(vector, 4)
    except IndexError:
        return None
    if part(begin, len(BYTECODE_MAGIC)) != BYTECODE_MAGIC or begin + length > total:
        return None
    return begin, length
