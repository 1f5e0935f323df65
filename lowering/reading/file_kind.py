"""What the beginning of a file tells: that it is of another kind, before all of it is read.

A file may be large and no module at all. To refuse one of 3 GB takes its first 64 KB.
"""

from __future__ import annotations

import re
from typing import BinaryIO, Final

from lowering.errors import ModuleFileError
from lowering.jaxlib_api.hlo_conversion import is_hlo_proto
from lowering.jaxlib_api.mlir import BYTECODE_MAGIC
from lowering.reading.exported import place_of_module
from lowering.reading.module_reader import text_of, truncated_bytecode

__all__ = ["BEGINNING", "LARGE", "reject_by_prefix", "whole_characters"]

LARGE: Final = 1 << 20
"""What is smaller is read in no time: MLIR says best what is wrong with it, and where."""

BEGINNING: Final = 1 << 16
"""So many bytes of a large file are looked at."""

# A module, an operation, a name that is given to something, a dictionary of resources; or HLO,
# which others read.
_FIRST_WORD: Final = re.compile(
    r'(?:\s|//[^\n]*(?:\n|$))*+(module\b|func\b|[%#!"{]|\w+\.\w|HloModule\b|ENTRY\b|/\*|$)?'
)


def reject_by_prefix(file: BinaryIO, size: int, name: str, path: str) -> None:
    """Refuses a large file that is seen to be no StableHLO without reading all of it.

    Args:
        file: is left at its beginning.
        size: of the file in bytes.
        name: what it is called in messages.
        path: its name.

    Raises:
        ModuleFileError: it is none.
    """
    if size < LARGE:
        return

    def part(at: int, length: int) -> bytes:
        file.seek(at)
        return file.read(length)

    beginning = part(0, BEGINNING)
    try:
        if beginning.startswith(BYTECODE_MAGIC):
            if truncated_bytecode(part, size):
                raise ModuleFileError(
                    f"{name}: is truncated or damaged: its {size} bytes of bytecode do not add up\n"
                    f"fix: copy or save the module again",
                    path=path,
                )
            return
        if place_of_module(part, size) is not None:
            return
        beginning = whole_characters(beginning)
        if is_hlo_proto(beginning):
            return  # may be read by `from_hlo`
        text = text_of(beginning, name, path)
        first = _FIRST_WORD.match(text)
        if first is not None and first[1] is None:
            before, word = text[: first.end()], text[first.end() :].split(maxsplit=1)[0]
            line, column = before.count("\n") + 1, first.end() - (before.rfind("\n") + 1) + 1
            raise ModuleFileError(
                f"{name}: line {line}, column {column}: not StableHLO: no operation begins with "
                f"{word[:40]!r}\n"
                f"fix: give a file that StablehloModule.save wrote, or StableHLO of others",
                path=path,
                line=line,
                column=column,
            )
    finally:
        file.seek(0)


def whole_characters(beginning: bytes) -> bytes:
    """The beginning of a text in UTF-8 without its last character, if that is cut off."""
    whole = beginning.decode("utf-8", "ignore").encode()
    is_cut = len(whole) > len(beginning) - 4 and beginning.startswith(whole)
    return whole if is_cut else beginning
