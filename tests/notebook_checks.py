"""Read and run a notebook, and check what every notebook must satisfy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from scripts import ROOT, load_script

writer = load_script("tools/write_notebooks.py")


def committed(name: str) -> Any:
    """Return the committed notebook."""
    return writer.read(ROOT / "notebooks" / name)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> list[str]:
    """Return the output of a cell and the value of its last line, as text, HTML and SVG."""
    texts = []
    for output in cell.outputs:
        assert output.output_type in ("stream", "execute_result"), output
        if output.output_type == "stream":
            texts.append(output.text)
        else:
            assert set(output.data) <= {"text/plain", "text/html", "image/svg+xml"}
            texts += [output.data[kind] for kind in sorted(output.data)]
    return texts


def check_outputs(notebook: Any, folder: Path, count: int) -> None:
    """Check that a run has the same outputs. It writes its files to `folder` / "work"."""
    again = code_cells(writer.executed(notebook, folder))
    before = code_cells(notebook)
    assert len(again) == len(before) == count
    for number, (old, new) in enumerate(zip(before, again, strict=True), 1):
        assert shown(new) == shown(old), f"cell {number}: run `make docs` and read what changed"


def check_was_run(notebook: Any) -> None:
    """Check that the cells were run once, from top to bottom."""
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell.outputs for cell in cells)


def check_is_portable(notebook: Any) -> None:
    """Check that the outputs and metadata have no absolute paths, addresses or settings."""
    for cell in code_cells(notebook):
        for text in shown(cell):
            if not text.startswith("<svg"):
                # An absolute path, on Linux or Windows.
                assert not re.search(r"(?:^|[\s\"'(=])(?:/\w|[A-Za-z]:\\)", text), text
            assert not re.search(r"\bat 0x[0-9a-f]+", text), text
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert all(not cell.metadata for cell in notebook.cells)
