"""The notebook runs, and its committed outputs match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import notebook_checks
import pytest
from notebook_checks import shown, writer


@pytest.fixture(scope="module")
def committed() -> Any:
    return notebook_checks.committed("01_quickstart.ipynb")


def test_the_outputs_match_a_run(committed: Any, tmp_path: Path) -> None:
    notebook_checks.check_outputs(committed, tmp_path, 11)


def test_cells_were_run_in_order(committed: Any) -> None:
    notebook_checks.check_was_run(committed)


def test_outputs_do_not_depend_on_the_machine(committed: Any) -> None:
    notebook_checks.check_is_portable(committed)


def test_output_in_several_messages_is_joined(tmp_path: Path) -> None:
    """On a busy machine the kernel sends the output of a cell in several messages."""
    notebook = writer.nbformat.v4.new_notebook()
    code = "for piece in 'abc':\n    print(piece, flush=True)"
    notebook.cells.append(writer.nbformat.v4.new_code_cell(code))
    (cell,) = writer.executed(notebook, tmp_path).cells
    assert shown(cell) == ["a\nb\nc\n"]
