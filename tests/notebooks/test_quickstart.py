"""The notebook runs, and its committed outputs are those of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripts import ROOT, load_script

NOTEBOOK = ROOT / "notebooks" / "01_quickstart.ipynb"


writer = load_script("tools/write_notebooks.py")


@pytest.fixture(scope="module")
def committed() -> Any:
    return writer.read(NOTEBOOK)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> list[str]:
    """What a cell printed, and the value of its last line."""
    assert all(o.output_type in ("stream", "execute_result") for o in cell.outputs), cell.outputs
    return [o.text if o.output_type == "stream" else o.data["text/plain"] for o in cell.outputs]


def test_the_outputs_are_those_of_a_run(committed: Any, tmp_path: Path) -> None:
    again = code_cells(writer.executed(committed, tmp_path))
    before = code_cells(committed)
    assert len(again) == len(before) == 10
    for number, (old, new) in enumerate(zip(before, again, strict=True), 1):
        assert shown(new) == shown(old), f"cell {number}: run `make docs` and read what changed"


def test_it_was_run_from_top_to_bottom(committed: Any) -> None:
    cells = code_cells(committed)
    assert [cell.execution_count for cell in cells] == list(range(1, 11))
    assert all(cell.outputs for cell in cells)


def test_nothing_of_the_machine_is_in_it(committed: Any) -> None:
    for cell in code_cells(committed):
        for text in shown(cell):
            # A path that begins at the root, or a drive's letter.
            assert not re.search(r"(?:^|[\s\"'(=])(?:/\w|[A-Za-z]:\\)", text), text
            assert not re.search(r"\bat 0x[0-9a-f]+", text), text
    assert set(committed.metadata) == {"kernelspec", "language_info"}
    assert all(not cell.metadata for cell in committed.cells)


def test_what_comes_in_pieces_is_one_output(tmp_path: Path) -> None:
    """As on a busy machine, where a cell prints over a longer time."""
    notebook = writer.nbformat.v4.new_notebook()
    code = "for piece in 'abc':\n    print(piece, flush=True)"
    notebook.cells.append(writer.nbformat.v4.new_code_cell(code))
    (cell,) = writer.executed(notebook, tmp_path).cells
    assert shown(cell) == ["a\nb\nc\n"]
