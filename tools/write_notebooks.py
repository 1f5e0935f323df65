"""Runs the notebooks in fresh kernels and writes their outputs into them.

    python tools/write_notebooks.py

What is kept of a run is what readers see: no times, no versions of the kernel.
tests/notebooks fails when the outputs in the tree are not those of a run.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"

SECONDS = 300
"""How long to wait for the kernel: to start, to run a cell, and to send what it prints."""

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(notebook: Any, folder: Path) -> Any:
    """A copy of the notebook with the outputs of a run; files it writes go into `folder`."""
    notebook = copy.deepcopy(notebook)
    before = dict(os.environ)
    # Not the user's: settings there could change what is shown.
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    os.environ["JUPYTER_RUNTIME_DIR"] = str(folder / "jupyter")
    os.environ["COLUMNS"] = "120"  # tables are as wide as the terminal that the kernel has
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), before.get("PYTHONPATH")]))
    work = folder / "work"
    work.mkdir()
    try:
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            startup_timeout=SECONDS,
            # On a busy machine the kernel may send in several pieces what a cell prints, and only
            # seconds after it is done: by default the pieces stay apart, and what comes 4 seconds
            # late is dropped without a word.
            iopub_timeout=SECONDS,
            raise_on_iopub_timeout=True,
            coalesce_streams=True,
            kernel_name="python3",
            resources={"metadata": {"path": str(work)}},
            record_timing=False,
        )
        client.execute()
    finally:
        os.environ.clear()
        os.environ.update(before)
    notebook.metadata = nbformat.from_dict(METADATA)
    return notebook


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def main() -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(read(path), Path(folder)), path)
        print(path.relative_to(ROOT), file=sys.stderr)


if __name__ == "__main__":
    main()
