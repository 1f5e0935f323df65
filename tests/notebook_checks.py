"""What the tests of the notebooks share: reading one, running it, and what is asked of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from scripts import ROOT, load_script

writer = load_script("tools/write_notebooks.py")


def committed(name: str) -> Any:
    """The notebook as it stands in the tree."""
    return writer.read(ROOT / "notebooks" / name)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> list[str]:
    """What a cell printed, and its last line's value: as text, and as a picture if it is one."""
    texts = []
    for output in cell.outputs:
        assert output.output_type in ("stream", "execute_result"), output
        if output.output_type == "stream":
            texts.append(output.text)
        else:
            assert set(output.data) <= {"text/plain", "image/svg+xml"}
            texts += [output.data[kind] for kind in sorted(output.data)]
    return texts


def check_outputs(notebook: Any, folder: Path, count: int) -> None:
    """Fails unless the outputs are those of a run, which writes its files to `folder` / "work"."""
    again = code_cells(writer.executed(notebook, folder))
    before = code_cells(notebook)
    assert len(again) == len(before) == count
    for number, (old, new) in enumerate(zip(before, again, strict=True), 1):
        assert shown(new) == shown(old), f"cell {number}: run `make docs` and read what changed"


def check_was_run(notebook: Any) -> None:
    """Fails unless it was run from top to bottom."""
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell.outputs for cell in cells)


def check_says_nothing_of_the_machine(notebook: Any) -> None:
    for cell in code_cells(notebook):
        for text in shown(cell):
            if not text.startswith("<svg"):
                # A path that begins at the root, or a drive's letter.
                assert not re.search(r"(?:^|[\s\"'(=])(?:/\w|[A-Za-z]:\\)", text), text
            assert not re.search(r"\bat 0x[0-9a-f]+", text), text
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert all(not cell.metadata for cell in notebook.cells)
