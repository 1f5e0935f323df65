"""Take screenshots of the site and of the notebooks, to be looked at.

    python tools/screenshots.py [NAME...]

Writes build/screenshots/NAME-WIDTH-SCHEME.png for the main pages of the site in build/site/html
and for each notebook, at two widths, light and dark; with names only those. The notebooks have the
outputs that are committed. Requires Chromium or Chrome.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SITE: Final = ROOT / "build" / "site" / "html"
TARGET: Final = ROOT / "build" / "screenshots"

PAGES: Final = {
    "home": "",
    "tutorial": "tutorial",
    "how-to": "how-to/shard",
    "operations": "operations",
    "op-pad": "operations/pad",
    "op-gather": "operations/gather",
    "op-while": "operations/while_",
    "op-add": "operations/add",
    "reference": "reference",
    "reference-graph": "reference/builder/graph",
    "reference-lib": "reference/lib/nn",
    "reference-lowering": "reference/lowering",
    "reference-command": "reference/command",
    "architecture": "architecture",
    "performance": "performance",
    "distributed": "distributed",
    "notebook-page": "notebooks/06_training",
    "guide": "guide",
    "conformance": "conformance",
    "xla_defects": "xla_defects",
}
"""The main pages of the site: their addresses by the names of the pictures."""

WIDTHS: Final = (1100, 700)
SCHEMES: Final = {"light": 1, "dark": 0}
"""Chromium's numbers of the preferred color schemes."""
_HEIGHT: Final = 2400
_NOTEBOOK_HEIGHT: Final = 9000
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


def browser() -> str:
    """Return the path of a browser, or exit with a line that names what to install."""
    for name in _BROWSERS:
        path = shutil.which(name)
        if path:
            return path
    sys.exit("Install chromium (apt-get install chromium), or put google-chrome on the PATH.")


def take(program: str, page: Path, picture: Path, width: int, height: int, scheme: str) -> None:
    """Take a screenshot of a file of HTML.

    Raises:
        RuntimeError: the browser did not write the picture.
    """
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                program,
                *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                # The site shows its style and its colors once its script has run.
                "--virtual-time-budget=5000",
                f"--user-data-dir={profile}",
                f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
                f"--window-size={width},{height}",
                f"--screenshot={picture}",
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    if done.returncode or not picture.exists():
        raise RuntimeError(f"{program} took no picture of {page}:\n{done.stderr[-1000:]}")


def notebook_page(notebook: Path, folder: Path, scheme: str) -> Path:
    """Write a notebook as HTML, in the colors of JupyterLab, and return the file."""
    from nbconvert import HTMLExporter

    # The pages would load MathJax and RequireJS from the network.
    exporter = HTMLExporter(
        theme=scheme, mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url=""
    )
    text, _ = exporter.from_filename(str(notebook))
    page = folder / f"{notebook.stem}-{scheme}.html"
    page.write_text(text, encoding="utf-8")
    return page


def main() -> None:
    program = browser()
    wanted = set(sys.argv[1:])
    pages = {name: SITE / address / "index.html" for name, address in PAGES.items()}
    notebooks = {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    unknown = wanted - pages.keys() - notebooks.keys()
    if unknown:
        sys.exit(f"no page or notebook {', '.join(sorted(unknown))}")
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, path in {**pages, **notebooks}.items():
            if wanted and name not in wanted:
                continue
            height = _NOTEBOOK_HEIGHT if name in notebooks else _HEIGHT
            for scheme in SCHEMES:
                is_notebook = name in notebooks
                page = notebook_page(path, Path(folder), scheme) if is_notebook else path
                for width in WIDTHS:
                    picture = TARGET / f"{name}-{width}-{scheme}.png"
                    take(program, page, picture, width, height, scheme)
                    print(picture.relative_to(ROOT), flush=True)


if __name__ == "__main__":
    main()
