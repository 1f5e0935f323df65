"""Refuse large files that are not modules by their first bytes, without parsing the files."""

from __future__ import annotations

import re
from typing import BinaryIO, Final

from lowering.jaxlib_api.hlo_conversion import is_hlo_proto
from lowering.jaxlib_api.mlir import BYTECODE_MAGIC
from lowering.reading.exported import place_of_module
from lowering.reading.module_reader import check_sections, file_error, no_operation, text_of

LARGE: Final = 1 << 20
"""The size in bytes of a large file. Smaller files are parsed, since MLIR's errors are precise."""

BEGINNING: Final = 1 << 16
"""The number of bytes at the start of a large file that are checked."""

# A module, an operation, an alias, a dictionary of resources; or HLO, which `from_hlo` reads.
_FIRST_WORD: Final = re.compile(
    r'(?:\s|//[^\n]*(?:\n|$))*+(module\b|func\b|[%#!"{]|\w+\.\w|HloModule\b|ENTRY\b|/\*|$)?'
)


def reject_by_prefix(file: BinaryIO, size: int, path: str) -> None:
    """Refuse a large file whose beginning is not StableHLO.

    Args:
        file: the open file. On return, its position is 0.
        size: the size of the file in bytes.
        path: the path of the file.

    Raises:
        ModuleFileError: the file is not StableHLO.
    """
    if size < LARGE:
        return

    def part(at: int, length: int) -> bytes:
        file.seek(at)
        return file.read(length)

    beginning = part(0, BEGINNING)
    try:
        if beginning.startswith(BYTECODE_MAGIC):
            check_sections(part, size, path)
            return
        if place_of_module(part, size) is not None:
            return
        beginning = complete_characters(beginning)
        if is_hlo_proto(beginning):
            return  # `from_hlo` may be reading it
        text = text_of(beginning, path)
        first = _FIRST_WORD.match(text)
        if first is not None and first[1] is None:
            before, word = text[: first.end()], text[first.end() :].split(maxsplit=1)[0]
            line, column = before.count("\n") + 1, first.end() - (before.rfind("\n") + 1) + 1
            raise file_error(path, *no_operation(word), (line, column))
    finally:
        file.seek(0)


def complete_characters(beginning: bytes) -> bytes:
    """Return the start of a UTF-8 text without an incomplete character at its end."""
    complete = beginning.decode("utf-8", "ignore").encode()
    is_cut = len(complete) > len(beginning) - 4 and beginning.startswith(complete)
    return complete if is_cut else beginning
