"""Source lines of programs that Python didn't run: of modules read from files.

An op keeps the code object that recorded it and an offset in it. For lines of another program there
is no code object, so one is made that says nothing but where its instructions are from. One for
many lines takes less memory than one for each, and 0.6 us a line in place of 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import sub
from types import CodeType
from typing import Final

__all__ = ["MOST_PLACES", "WIDTH", "code_of_places"]

MOST_PLACES: Final = 64
"""Of how many places one code object should be made at most: who asks for the line of one op has
to wait until all of them are decoded."""

WIDTH: Final = 2
"""Of an instruction, in bytes: by so much offsets differ."""

_EMPTY: Final = compile("", "", "exec")
_INSTRUCTION: Final = _EMPTY.co_code[:WIDTH]
"""Any: nothing runs it."""

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


@lru_cache(maxsize=4096)
def _entry(step: int, column: int) -> bytes:
    """An entry of a line table.

    Args:
        step: from the line of the entry before to this one.
        column: counted from 1.
    """
    line = _varint(abs(step) << 1 | (step < 0))
    end_line = b"\0"  # the same
    return b"%c%b%b%b%b" % (_ONE_INSTRUCTION, line, end_line, _varint(column), _varint(column + 1))


def code_of_places(
    file: str, lines: Sequence[int], columns: Sequence[int], function: str
) -> CodeType:
    """A code object whose instructions, `WIDTH` apart, stand in these places one after another.

    Args:
        file: the name of the file.
        lines, columns: of each place, counted from 1; at least one.
        function: the name of the function that the lines are in.

    Python: Objects/locations.md.
    """
    first = lines[0]
    # A loop that runs in C, in a third of the time.
    table = map(_entry, map(sub, lines, (first, *lines)), columns)
    return _EMPTY.replace(
        co_code=_INSTRUCTION * len(lines),
        co_filename=file,
        co_firstlineno=first,
        co_name=function,
        co_qualname=function,
        co_linetable=b"".join(table),
    )
