"""Source lines of programs that Python didn't run: of modules read from files.

An op keeps the code object that recorded it and an offset in it. For a line of another program
there is no code object, so one is made that says nothing but where it is from.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Final

__all__ = ["code_at"]

_EMPTY: Final = compile("", "", "exec")

_ONE_INSTRUCTION: Final = 0x80 | 14 << 3
"""Of a line table: an entry in the long form, which says line and column, for one instruction."""


def _varint(value: int) -> bytes:
    """A number as line tables have it: 6 bits in a byte, the lowest first."""
    found = bytearray()
    while value > 0x3F:
        found.append(0x40 | value & 0x3F)
        value >>= 6
    found.append(value)
    return bytes(found)


@lru_cache(maxsize=65536)
def code_at(file: str, line: int, column: int, function: str) -> CodeType:
    """A code object whose instruction at offset 0 stands in this place.

    Args:
        file: the name of the file.
        line, column: counted from 1.
        function: the name of the function that the line is in.

    Python: Objects/locations.md.
    """
    same_line = b"\0\0"  # from the first line on, and to the end of what stands there
    place = _varint(column) + _varint(column + 1)
    return _EMPTY.replace(
        co_filename=file,
        co_firstlineno=line,
        co_name=function,
        co_qualname=function,
        co_linetable=bytes((_ONE_INSTRUCTION,)) + same_line + place,
    )
