"""The notebook runs, and its committed outputs are those of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import notebook_checks
import pytest
from notebook_checks import shown, writer


@pytest.fixture(scope="module")
def committed() -> Any:
    return notebook_checks.committed("01_quickstart.ipynb")


def test_the_outputs_are_those_of_a_run(committed: Any, tmp_path: Path) -> None:
    notebook_checks.check_outputs(committed, tmp_path, 11)


def test_it_was_run_from_top_to_bottom(committed: Any) -> None:
    notebook_checks.check_was_run(committed)


def test_nothing_of_the_machine_is_in_it(committed: Any) -> None:
    notebook_checks.check_says_nothing_of_the_machine(committed)


def test_what_comes_in_pieces_is_one_output(tmp_path: Path) -> None:
    """As on a busy machine, where a cell prints over a longer time."""
    notebook = writer.nbformat.v4.new_notebook()
    code = "for piece in 'abc':\n    print(piece, flush=True)"
    notebook.cells.append(writer.nbformat.v4.new_code_cell(code))
    (cell,) = writer.executed(notebook, tmp_path).cells
    assert shown(cell) == ["a\nb\nc\n"]
