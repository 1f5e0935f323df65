"""Every notebook runs from a clean kernel, and its committed outputs match."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from scripts import ROOT, load_script
from tables import each_row

pytestmark = pytest.mark.slow

writer = load_script("tools/write_notebooks.py")

NAMES = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))

KINDS = {"text/plain", "text/html", "image/svg+xml", "image/png"}


def committed(name: str) -> Any:
    return writer.read(ROOT / "notebooks" / name)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def sources(notebook: Any) -> list[str]:
    return [cell.source for cell in notebook.cells]


def texts(name: str) -> list[str]:
    """Return everything that the cells of a committed notebook show."""
    return [text for cell in code_cells(committed(name)) for text in writer.shown(cell)]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_the_committed_outputs(name: str, tmp_path: Path) -> None:
    notebook = committed(name)
    again = writer.executed(notebook, tmp_path)
    for number, (old, new) in enumerate(zip(notebook.cells, again.cells, strict=True)):
        if old.cell_type == "code":
            hint = f"cell {number} of {name}: run `make docs` and read what changed"
            found, expected = writer.shown(new), writer.shown(old)
            assert found == expected or writer.same_shown(expected, found), hint


@each_row("name", NAMES)
def test_it_begins_with_a_link_to_colab_and_installs_the_package(name: str) -> None:
    notebook = committed(name)
    assert sources(writer.with_opening(notebook, name)) == sources(notebook)
    title, install = notebook.cells[:2]
    assert title.source.startswith("# ")
    assert f"/blob/main/notebooks/{name})" in title.source
    assert "%pip install" in install.source
    addresses = re.findall(r"github(?:usercontent)?(?:\.com)?/([\w-]+/[\w-]+)", str(notebook.cells))
    assert set(addresses) == {writer.REPOSITORY}
    assert not install.outputs, "the package is installed in the tests"


@each_row("name", NAMES)
def test_it_was_run_from_top_to_bottom(name: str) -> None:
    cells = code_cells(committed(name))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {
        *("stream", "execute_result", "display_data")
    }
    assert {kind for output in outputs for kind in output.get("data", ())} <= KINDS


@each_row("name", NAMES)
def test_its_outputs_do_not_depend_on_the_machine(name: str) -> None:
    """They have no absolute paths, addresses or settings."""
    notebook = committed(name)
    for text in texts(name):
        if not text.startswith("<svg"):
            # An absolute path, on Linux or Windows.
            assert not re.search(r"(?:^|[\s\"'(=])(?:/\w|[A-Za-z]:\\)", text), text
        assert not re.search(r"\bat 0x[0-9a-f]+", text), text
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert all(not cell.metadata for cell in notebook.cells)


def test_output_in_several_messages_is_joined(tmp_path: Path) -> None:
    """On a busy machine the kernel sends the output of a cell in several messages."""
    notebook = writer.nbformat.v4.new_notebook()
    code = "for piece in 'abc':\n    print(piece, flush=True)"
    notebook.cells.append(writer.nbformat.v4.new_code_cell(code))
    (cell,) = writer.executed(notebook, tmp_path).cells
    assert writer.shown(cell) == ["a\nb\nc\n"]


def test_cells_that_differ_only_by_rounding_are_left_unchanged() -> None:
    v4 = writer.nbformat.v4

    def notebook(*texts: str) -> Any:
        outputs = [[v4.new_output("stream", text=text)] for text in texts]
        return v4.new_notebook(cells=[v4.new_code_cell("f()", outputs=each) for each in outputs])

    before = notebook("0.4082483\n", "1\n")
    assert writer.updated(before, notebook("0.40824828\n", "1\n")) is before
    after = writer.updated(before, notebook("0.40824828\n", "2\n"))
    assert [writer.shown(cell) for cell in after.cells] == [["0.4082483\n"], ["2\n"]]
    more = notebook("0.4082483\n", "1\n", "2\n")
    assert writer.updated(before, more) is more


def test_the_opening_is_replaced() -> None:
    """A notebook that was renamed gets the link of its new name."""
    before = committed("01_quickstart.ipynb")
    renamed = writer.with_opening(before, "00_start.ipynb")
    assert "/notebooks/00_start.ipynb)" in renamed.cells[0].source
    assert sources(writer.with_opening(renamed, "01_quickstart.ipynb")) == sources(before)


def test_layouts_have_the_numbers_of_the_documents() -> None:
    text = "\n".join(texts("02_shapes_and_layouts.ipynb"))
    for line in ("a b c d e f", "a d b e c f", "a d 0 b e 0 c f 0 0 0 0 0 0 0"):
        assert f"{line}\n" in text
    assert "tile [1 1] in it [0 1] of (2, 3, 2, 2)\n17\n17\n" in text


def test_layouts_have_the_figures_of_the_documents() -> None:
    titles: dict[str, set[str | None]] = {}
    for text in texts("02_shapes_and_layouts.ipynb"):
        if text.startswith("<svg"):
            root = ElementTree.fromstring(text)
            name = root.attrib["aria-label"].removesuffix(" in memory")
            titles[name] = {title.text for title in root.iter("{http://www.w3.org/2000/svg}title")}
    assert {"(2,3) at 17", "padding at 9"} <= titles["f32[3,5]{1,0:T(2,2)}"]
    figure_2 = titles["f32[4,8]{1,0:T(2,4)(2,1)}"]
    assert {"(1,0) at 1", "(0,1) at 2", "(2,0) at 16"} <= figure_2


def test_files_locates_the_line() -> None:
    cells = code_cells(committed("03_files.ipynb"))
    (model,) = [cell.source for cell in cells if cell.source.startswith("%%writefile model.py\n")]
    (output,) = [text for text in texts("03_files.ipynb") if "line " in text[-10:]]
    line = model.splitlines()[1:][int(output.split()[-1]) - 1]  # without "%%writefile"
    assert line.strip() == "odds = jnp.exp(scores)"
