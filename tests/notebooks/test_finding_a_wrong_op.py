"""The notebook finds the wrong ops and their lines, and saves programs of these ops alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from html_pages import page_of
from scripts import ROOT, load_script

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cells() -> list[Any]:
    writer = load_script("tools/write_notebooks.py")
    cells = writer.read(ROOT / "notebooks" / "10_finding_a_wrong_op.ipynb").cells
    return [cell for cell in cells if cell.cell_type == "code"]


def printed(cells: list[Any]) -> str:
    return "".join(output.get("text", "") for cell in cells for output in cell.outputs)


def test_it_finds_the_lines(cells: list[Any]) -> None:
    lines = [
        cells[int(cell) - 1].source.splitlines()[int(line) - 1].strip()
        for cell, line in re.findall(r" at In\[(\d+)\]:(\d+)\n", printed(cells))
    ]
    assert lines == [
        "rounded = xb.round(x * 4.0)",
        "is_missing = xb.ne(readings, readings)  # only a NaN differs from itself",
    ]


def test_the_saved_programs_have_one_op(cells: list[Any]) -> None:
    pages = [
        page_of(output.data["text/html"])
        for cell in cells
        if cell.cell_type == "code" and "lowering.load(" in cell.source
        for output in cell.outputs
        if "text/html" in output.get("data", ())
    ]
    operations = [re.findall(r"stablehlo\.\w+", page.text) for page in pages]
    assert operations == [["stablehlo.round_nearest_even"], ["stablehlo.compare"]]


def test_it_explains_the_wrong_numbers(cells: list[Any]) -> None:
    text = printed(cells)
    assert "-0.5 becomes -0.0, not -1.0\n" in text
    assert "device:      [False False False False False False]\n" in text
    assert "interpreter: [False False  True False False False]\n" in text
