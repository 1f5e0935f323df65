"""The notebooks as pages of the site, with the outputs that are committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import nbformat

ROOT: Final = Path(__file__).resolve().parents[2]


class NotebookPage(NamedTuple):
    """A notebook as a page.

    Attributes:
        title: the heading of the notebook.
        path: the path of the page in the site's pages.
        text: the page in Markdown.
        pictures: the pictures of the outputs, by their paths in the site's pages.
    """

    title: str
    path: str
    text: str
    pictures: dict[str, bytes]


def path_of(notebook: str) -> str:
    """Return the path of the page of a file, such as "notebooks/03_files.ipynb"."""
    return notebook.removesuffix(".ipynb") + ".md"


def pages(with_links: Callable[[str, str, str], str]) -> Iterator[NotebookPage]:
    """Generate the pages.

    Args:
        with_links: a function of a text, the path of its page and the path of its file, that
            returns the text with the links of the site. Code is not passed to it: a call of an
            element of a list is written like a link.
    """
    from nbconvert import MarkdownExporter  # lazy: only `make site` installs it

    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        source = file.relative_to(ROOT).as_posix()
        path = path_of(source)
        notebook = nbformat.read(file, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = with_links(cell.source, path, source)
        pictures = f"{file.stem}_outputs"
        text, found = MarkdownExporter().from_notebook_node(
            notebook, resources={"output_files_dir": pictures}
        )
        heading = next(line for line in text.splitlines() if line.startswith("# "))
        yield NotebookPage(
            heading.removeprefix("# "),
            path,
            text,
            {f"notebooks/{name}": content for name, content in found["outputs"].items()},
        )
