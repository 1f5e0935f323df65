"""The module inside what `jax.export.Exported.serialize` writes.

That is a FlatBuffers table, of which one field is the module's portable artifact. What else is in
it (trees of arguments, shardings, derivatives) belongs to jax. jax itself reads it with a package
that need not be installed; one field is found by four steps through the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowering.jaxlib_api.mlir import BYTECODE_MAGIC

__all__ = ["embedded_artifact", "place_of_module"]

_MODULE: Final = 30
"""Where the offset of the field stands in the table of offsets: that of its 14th field.

Fields of such tables keep their places for good."""


def embedded_artifact(data: bytes) -> bytes | None:
    """The portable artifact in a serialized Exported; None if the bytes are something else."""
    place = place_of_module(lambda at, size: data[at : at + size], len(data))
    return None if place is None else data[place[0] : place[0] + place[1]]


def place_of_module(part: Callable[[int, int], bytes], total: int) -> tuple[int, int] | None:
    """Where the portable artifact begins in a serialized Exported, and how long it is.

    Args:
        part: gives so many bytes from a place on.
        total: how many bytes there are.

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
