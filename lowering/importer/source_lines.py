"""Code objects that represent source lines of imported modules.

An op refers to the code object that recorded it, and to an offset in that code. For a source line
of an imported module, a code object is created that has only a line table. One code object for
many lines takes less memory and time than one for each line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import sub
from types import CodeType
from typing import Final

MOST_PLACES: Final = 64
"""The maximum number of lines in a code object: Python decodes all of them to look up one."""

WIDTH: Final = 2
"""The size of an instruction in bytes: the difference between two offsets."""

_EMPTY: Final = compile("", "", "exec")
_INSTRUCTION: Final = _EMPTY.co_code[:WIDTH]
"""Any instruction: none is executed."""

_ONE_INSTRUCTION: Final = 0x80 | 14 << 3
"""The first byte of an entry of a line table, in the long form, for one instruction."""


def _varint(value: int) -> bytes:
    """Encode a number for a line table: 6 bits per byte, the lowest bits first."""
    encoded = bytearray()
    while value > 0x3F:
        encoded.append(0x40 | value & 0x3F)
        value >>= 6
    encoded.append(value)
    return bytes(encoded)


@lru_cache(maxsize=4096)
def _entry(step: int, column: int) -> bytes:
    """Encode an entry of a line table.

    Args:
        step: the line minus that of the previous entry.
        column: counted from 1.
    """
    line = _varint(abs(step) << 1 | (step < 0))
    end_line = b"\0"  # relative to `line`
    return b"%c%b%b%b%b" % (_ONE_INSTRUCTION, line, end_line, _varint(column), _varint(column + 1))


def code_of_places(
    file: str, lines: Sequence[int], columns: Sequence[int], function: str
) -> CodeType:
    """Return a code object with one instruction for each line, `WIDTH` apart.

    Args:
        file: the name of the file.
        lines, columns: the position of each instruction, counted from 1; at least one.
        function: the name of the function.

    Python: Objects/locations.md.
    """
    first = lines[0]
    table = map(_entry, map(sub, lines, (first, *lines)), columns)
    return _EMPTY.replace(
        co_code=_INSTRUCTION * len(lines),
        co_filename=file,
        co_firstlineno=first,
        co_name=function,
        co_qualname=function,
        co_linetable=b"".join(table),
    )
