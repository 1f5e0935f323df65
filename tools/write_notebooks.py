"""Run the notebooks in fresh kernels and write their outputs to the files.

    python tools/write_notebooks.py

Execution times and versions of the kernel are not stored. tests/notebooks fails if the outputs in
the repository differ from those of a run.
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
"""Time limit for the kernel to start, to run a cell and to send its output."""

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


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
            resources={"metadata": {"path": str(work)}},
            record_timing=False,
        )
        client.execute()
    finally:
        os.environ.clear()
        os.environ.update(environment)
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
