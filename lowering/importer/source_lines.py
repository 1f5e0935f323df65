"""Code objects that represent source lines of imported modules.

An op stores its source line as a Python code object and an offset in the code. For the source lines
of an imported module, code objects are created that have only a line table. One code object for
many lines takes less memory and time than one code object for each line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import sub
from types import CodeType
from typing import Final

MOST_PLACES: Final = 64
"""The maximum number of lines in a code object: to look up a line, Python decodes the table."""

WIDTH: Final = 2
"""The size of an instruction in bytes: the difference between the offsets of two lines."""

_EMPTY: Final = compile("", "", "exec")
_INSTRUCTION: Final = _EMPTY.co_code[:WIDTH]
"""An arbitrary Python instruction: the code objects are never executed."""

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
        step: the line number minus the line number of the previous entry.
        column: the column, counted from 1.
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
        lines, columns: the position of each instruction, counted from 1; at least one position.
        function: the name of the function.

    The format of line tables is described in Objects/locations.md of CPython's source.
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
