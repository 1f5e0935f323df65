"""The notebooks about devices, wrong ops and jax run from a clean kernel, with equal outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from notebook_checks import code_cells, committed, writer

NAMES = [
    "08_many_devices.ipynb",
    "09_on_an_accelerator.ipynb",
    "10_finding_a_wrong_op.ipynb",
    "11_with_jax.ipynb",
]


def shown(cell: Any) -> list[str]:
    """Return what a cell shows, without the bytes of pictures, which differ in each run."""
    texts = []
    for output in cell.outputs:
        assert output.output_type in ("stream", "execute_result", "display_data"), output
        data = output.get("data", {"text": output.get("text")})
        assert set(data) <= {"text", "text/plain", "text/html", "image/svg+xml", "image/png"}
        texts += [kind if kind == "image/png" else data[kind] for kind in sorted(data)]
    return texts


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_the_committed_outputs(name: str, tmp_path: Path) -> None:
    before = code_cells(committed(name))
    again = code_cells(writer.executed(committed(name), tmp_path))
    for number, (old, new) in enumerate(zip(before, again, strict=True), 1):
        assert shown(new) == shown(old), f"cell {number}: run `make docs` and read what changed"


@pytest.mark.parametrize("name", NAMES)
def test_its_form(name: str) -> None:
    notebook = committed(name)
    title, install = notebook.cells[:2]
    assert title.source.startswith("# ")
    assert f"/blob/main/notebooks/{name})" in title.source
    assert "%pip install -q xlabuilder" in install.source
    assert not install.outputs
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for text in [text for cell in cells for text in shown(cell)]:
        assert not re.search(r"(?:^|[\s\"'(=])(?:/\w|[A-Za-z]:\\)", text), text  # absolute paths
        assert not re.search(r"\bat 0x[0-9a-f]+", text), text
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert all(not cell.metadata for cell in notebook.cells)
