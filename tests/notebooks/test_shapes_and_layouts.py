"""The notebook runs, its outputs match, and it shows the numbers of the documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import notebook_checks
import pytest
from notebook_checks import code_cells, shown


@pytest.fixture(scope="module")
def committed() -> Any:
    return notebook_checks.committed("02_shapes_and_layouts.ipynb")


def drawings(notebook: Any) -> dict[str, ElementTree.Element]:
    """Return the drawings by their shapes."""
    roots = [
        ElementTree.fromstring(text)
        for cell in code_cells(notebook)
        for text in shown(cell)
        if text.startswith("<svg")
    ]
    return {root.attrib["aria-label"].removesuffix(" in memory"): root for root in roots}


def test_the_outputs_match_a_run(committed: Any, tmp_path: Path) -> None:
    notebook_checks.check_outputs(committed, tmp_path, 20)
    saved = ElementTree.parse(tmp_path / "work" / "figure1.svg").getroot()
    assert saved.attrib["aria-label"] == "f32[3,5]{1,0:T(2,2)} in memory"


def test_cells_were_run_in_order(committed: Any) -> None:
    notebook_checks.check_was_run(committed)


def test_outputs_do_not_depend_on_the_machine(committed: Any) -> None:
    notebook_checks.check_is_portable(committed)


def test_it_shows_the_numbers_of_the_documents(committed: Any) -> None:
    text = "\n".join(text for cell in code_cells(committed) for text in shown(cell))
    for line in ("a b c d e f", "a d b e c f", "a d 0 b e 0 c f 0 0 0 0 0 0 0"):
        assert f"{line}\n" in text
    assert "tile [1 1] in it [0 1] of (2, 3, 2, 2)\n17\n17\n" in text


def test_it_shows_a_drawing_for_each_step(committed: Any) -> None:
    roots = drawings(committed)
    assert list(roots) == [
        "u8[2,3]{1,0}",
        "u8[2,3]{0,1}",
        "f32[2,3,4]{0,2,1}",
        "u8[2,3]{0,1:pad(3,5)=zero}",
        "f32[3,5]{1,0:T(2,2)}",
        "f32[4,8]{1,0:T(2,4)(2,1)}",
        "f32[2,3,5]{2,1,0:T(*,2,3)}",
        "bf16[20,300]{1,0:T(8,128)(2,1)}",
    ]
    titles = {
        name: {title.text for title in root.iter("{http://www.w3.org/2000/svg}title")}
        for name, root in roots.items()
    }
    assert {"(2,3) at 17", "padding at 9"} <= titles["f32[3,5]{1,0:T(2,2)}"]
    figure_2 = titles["f32[4,8]{1,0:T(2,4)(2,1)}"]
    assert {"(1,0) at 1", "(0,1) at 2", "(2,0) at 16"} <= figure_2
