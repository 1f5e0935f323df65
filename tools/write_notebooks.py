"""Run the notebooks in fresh kernels and write their outputs to the files.

    python tools/write_notebooks.py [NAME ...]

NAME is a file in notebooks/; all notebooks by default. Each one begins with a link that opens it in
Colab, and with a cell that installs the package; both are inserted or updated. Execution times and
versions of the kernel are not stored. tests/notebooks fails if the outputs in the repository differ
from those of a run. Equal outputs are left unchanged: the bytes of pictures and the times of
progress bars differ in every run, and the last digits of numbers on every kind of CPU; see
tools/printed_numbers.py.
"""

from __future__ import annotations

import copy
import os
import re
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from printed_numbers import same_output

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"

URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]

REPOSITORY = URLS["Repository"].removeprefix("https://github.com/")
"""The owner and name of the project's repository on GitHub, from which Colab opens notebooks."""

INSTALL = """\
# Colab and other fresh machines: install xlabuilder unless it is there.
import importlib.util

if importlib.util.find_spec("builder") is None:
    %pip install -q "xlabuilder[draw]"\
"""
"""The first code cell of every notebook, with the extra for pictures of graphs."""

SECONDS = 300
"""Time limit for the kernel to start, to run a cell and to send its output."""

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def install_cell() -> Any:
    """Return the cell that installs the package."""
    return nbformat.v4.new_code_cell(INSTALL)


def colab_link(name: str) -> str:
    """Return the Markdown of the badge that opens a notebook of the repository in Colab."""
    colab = "https://colab.research.google.com"
    page = f"{colab}/github/{REPOSITORY}/blob/main/notebooks/{name}"
    return f"[![Open in Colab]({colab}/assets/colab-badge.svg)]({page})"


def with_opening(notebook: Any, name: str) -> Any:
    """Return a copy with the link to Colab below its title, and the cell that installs next.

    The first section becomes a cell of its own, after them.
    """
    notebook = copy.deepcopy(notebook)
    first, *others = notebook.cells
    heading, _, text = first.source.partition("\n")
    text = re.sub(r".*colab\.research\.google\.com.*\n*", "", text)
    text, _, section = text.partition("\n## ")
    first.source = f"{heading}\n\n{colab_link(name)}\n\n{text.strip()}"
    others = [cell for cell in others if "%pip install -q" not in cell.source]
    if section:
        others.insert(0, nbformat.v4.new_markdown_cell(f"## {section}"))
    notebook.cells = [first, install_cell(), *others]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02}"
    return notebook


def shown(cell: Any) -> list[str]:
    """Return the output of a cell and the value of its last line, as text, HTML and SVG.

    The bytes of a PNG picture and the times of a progress bar are replaced by placeholders.
    """
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            texts.append(re.sub(r"\[\d+:\d\d<[^\]]*\]", "[times]", output.text))
        else:
            for kind, data in sorted(output.data.items()):
                texts.append(kind if kind == "image/png" else data)
    return texts


def same(old: Any, new: Any) -> bool:
    """Return whether two cells are equal, and show the same except for rounding errors."""
    if old.source != new.source or old.get("execution_count") != new.get("execution_count"):
        return False
    return "outputs" not in old or same_shown(shown(old), shown(new))


def same_shown(old: list[str], new: list[str]) -> bool:
    """Return whether what two cells show is the same except for rounding errors."""
    return len(old) == len(new) and all(map(same_output, old, new))


def updated(before: Any, after: Any) -> Any:
    """Return the notebook after a run, with the cells before it where they are the same.

    A notebook without differences is returned unchanged.
    """
    if len(before.cells) != len(after.cells):
        return after
    pairs = [*zip(before.cells, after.cells, strict=True)]
    if all(same(old, new) for old, new in pairs):
        return before
    after = copy.deepcopy(after)
    after.cells = [old if same(old, new) else new for old, new in pairs]
    return after


def executed(notebook: Any, folder: Path) -> Any:
    """Return a copy of the notebook with the outputs of a run, which writes files to `folder`."""
    notebook = copy.deepcopy(notebook)
    environment = dict(os.environ)
    # The user's settings could change the output.
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    os.environ["JUPYTER_RUNTIME_DIR"] = str(folder / "jupyter")
    os.environ["COLUMNS"] = "120"  # the width of tables
    os.environ["XLABUILDER_PROGRESS"] = "0"  # how long XLA takes
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), environment.get("PYTHONPATH")])
    )
    work = folder / "work"
    work.mkdir()
    try:
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            startup_timeout=SECONDS,
            # On a busy machine the kernel may send the output of a cell in several messages, some
            # of them late. By default nbclient does not join them, and drops late ones silently.
            iopub_timeout=SECONDS,
            raise_on_iopub_timeout=True,
            coalesce_streams=True,
            kernel_name="python3",
            shutdown_kernel="immediate",
            resources={"metadata": {"path": str(work)}},
            record_timing=False,
        )
        client.execute()
    finally:
        os.environ.clear()
        os.environ.update(environment)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            # Source lines have the folder of the run.
            texts = output if output.output_type == "stream" else output.data
            for key, text in texts.items():
                texts[key] = text.replace(f"{work}/", "")
    notebook.metadata = nbformat.from_dict(METADATA)
    return notebook


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def main() -> None:
    names = sys.argv[1:] or sorted(path.name for path in FOLDER.glob("*.ipynb"))
    for name in names:
        path = FOLDER / name
        before = read(path)
        with tempfile.TemporaryDirectory() as folder:
            after = executed(with_opening(before, name), Path(folder))
        if (written := updated(before, after)) is not before:
            nbformat.write(written, path)
        print(path.relative_to(ROOT), file=sys.stderr)


if __name__ == "__main__":
    main()
