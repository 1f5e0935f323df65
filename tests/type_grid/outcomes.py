"""The outcome of each module of the grid, as a text file for each version of jaxlib.

A line has the name of a case and a letter for each element type, in the order of the first line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.recorded_versions import VERSION
from tests.type_grid.cases import CASES, ELEMENT_TYPES

__all__ = ["LETTERS", "Table", "read_table", "write_table"]

LETTERS: Final = {
    "r": "runs",
    "d": "refused, because the op's definition does not accept the element type",
    "c": "refused by another CompileError, which names the operation and its line",
    "-": "refused by MLIR's verifier when it is loaded",
    ".": "not measured",
}
"""The outcomes. Every other outcome is a defect of this library."""

Table = dict[tuple[str, str], str]
"""The outcomes by case and element type."""


def _path(version: str) -> Path:
    return Path(__file__).parent / f"outcomes-{version}.txt"


def read_table(version: str = VERSION) -> Table:
    """Return the outcomes with a version of jaxlib; an empty table if there is no file."""
    if not _path(version).exists():
        return {}
    head, *lines = _path(version).read_text(encoding="utf-8").splitlines()
    types = head.split()
    rows = (line.rsplit(maxsplit=1) for line in lines)
    return {
        (name.strip(), element_type): letter
        for name, letters in rows
        for element_type, letter in zip(types, letters, strict=True)
    }


def write_table(table: Mapping[tuple[str, str], str], version: str = VERSION) -> None:
    """Write the outcomes with a version of jaxlib."""
    width = max(map(len, CASES))
    rows = (
        f"{name:{width}} {''.join(table.get((name, t), '.') for t in ELEMENT_TYPES)}\n"
        for name in CASES
    )
    head = " ".join(ELEMENT_TYPES) + "\n"
    _path(version).write_text(head + "".join(rows), encoding="utf-8")
