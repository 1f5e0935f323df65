"""Write the pages of the site and its configuration to build/site.

    python tools/write_site.py

The pages are those of docs/, with links to files outside docs/ pointing to the repository,
tests/conformance/README.md, and the generated ones: a page for each operation, the API reference
and the notebooks; blocks of MLIR and HLO text are highlighted. The configuration is mkdocs.yml with
the generated pages in its navigation. `make site` then runs the generator on them.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tools" / "site_pages")]

import notebook_pages  # noqa: E402  (needs the path above)
import op_pages  # noqa: E402  (needs the path above)
import program_text  # noqa: E402  (needs the path above)
import reference_pages  # noqa: E402  (needs the path above)
import write_operations  # noqa: E402  (needs the path above)

import builder as xb  # noqa: E402  (needs the path above)

TARGET: Final = ROOT / "build" / "site"
PAGES: Final = TARGET / "docs"
REPOSITORY: Final = "https://github.com/xlabuilder/xlabuilder"
CONFORMANCE: Final = ROOT / "tests" / "conformance" / "README.md"
"""A page that is not in docs/."""

_LINK: Final = re.compile(r"\]\((?!https?:|#)([^)\s#]+)((?:#[^)]*)?)\)")
_SITE_LINK: Final = re.compile(rf"\]\({re.escape(write_operations.SITE)}([\w/-]+)/((?:#[^)]*)?)\)")
_FOLDERS: Final = {"reference"}
"""Pages with the address of a folder."""


def generated_pages() -> tuple[dict[str, str], dict[str, list[Any]]]:
    """Return the generated pages by path, and their entries in the sections of the navigation."""
    pages: dict[str, str] = {}
    families: dict[str, list[Any]] = {}
    for info in sorted(xb.OPERATIONS.values(), key=lambda info: str(info.name)):
        pages[op_pages.path_of(info)] = op_pages.page(info)
        families.setdefault(info.family, []).append({info.name: op_pages.path_of(info)})
    operations = ["operations.md", *({family: families[family]} for family in sorted(families))]
    reference: list[Any] = []
    for title, path, text in reference_pages.pages():
        pages[path] = text
        reference.append({title: path})
    return pages, {"Operations": operations, "Reference": reference}


def with_links(text: str, path: str, source: str) -> str:
    """Return a page with links to pages of the site relative, and links to other files absolute.

    Args:
        text: the text of the page.
        path: the path of the page in the site's pages.
        source: the path of the file in the project.

    Raises:
        FileNotFoundError: a link names a file that does not exist.
    """

    def to_file(match: re.Match[str]) -> str:
        linked = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        if linked.startswith("docs/"):
            return to_page(linked.removeprefix("docs/"), match[2])
        if linked.endswith(".ipynb") and (ROOT / linked).exists():
            return to_page(notebook_pages.path_of(linked), match[2])
        if not (ROOT / linked).exists():
            raise FileNotFoundError(f"{source} links to {linked}")
        return f"]({REPOSITORY}/blob/main/{linked}{match[2]})"

    def on_site(match: re.Match[str]) -> str:
        page = f"{match[1]}/index.md" if match[1] in _FOLDERS else f"{match[1]}.md"
        return to_page(page, match[2])

    def to_page(page: str, anchor: str) -> str:
        return f"]({posixpath.relpath(page, posixpath.dirname(path) or '.')}{anchor})"

    return _SITE_LINK.sub(on_site, _LINK.sub(to_file, text))


def pages_of(navigation: Any) -> list[str]:
    """Return the paths of the pages in a navigation, which is nested."""
    if isinstance(navigation, str):
        return [navigation]
    entries = navigation.values() if isinstance(navigation, dict) else navigation
    return [path for entry in entries for path in pages_of(entry)]


def configuration(sections: dict[str, list[Any]], pages: Collection[str]) -> str:
    """Return mkdocs.yml with the generated sections of the navigation.

    Raises:
        ValueError: a page is not in the navigation, or an entry has no page. The generator does not
            check this.
    """
    options = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    for section in options["nav"]:
        if isinstance(section, dict):
            section.update({name: sections[name] for name in section.keys() & sections.keys()})
    different = sorted(set(pages_of(options["nav"])) ^ set(pages))
    if different:
        raise ValueError(f"mkdocs.yml: pages in docs/ or in nav, but not in both: {different}")
    return yaml.safe_dump(options, sort_keys=False)


def write_pages() -> dict[str, list[Any]]:
    """Write all pages, and return the generated sections of the navigation."""
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("platforms.json"))
    pages, sections = generated_pages()
    texts = {path: (text, f"docs/{path}") for path, text in pages.items()}
    for file in PAGES.rglob("*.md"):
        path = file.relative_to(PAGES).as_posix()
        texts[path] = (file.read_text(encoding="utf-8"), f"docs/{path}")
    source = CONFORMANCE.relative_to(ROOT).as_posix()
    texts["conformance.md"] = (CONFORMANCE.read_text(encoding="utf-8"), source)
    for path, (text, source) in texts.items():
        (PAGES / path).parent.mkdir(parents=True, exist_ok=True)
        page = program_text.highlighted(with_links(text, path, source))
        (PAGES / path).write_text(page, encoding="utf-8")
    sections["Notebooks"] = []
    for notebook in notebook_pages.pages(with_links):
        files = {notebook.path: notebook.text.encode(), **notebook.pictures}
        for path, content in files.items():
            (PAGES / path).parent.mkdir(parents=True, exist_ok=True)
            (PAGES / path).write_bytes(content)
        sections["Notebooks"].append({notebook.title: notebook.path})
    return sections


def main() -> None:
    sections = write_pages()
    pages = [file.relative_to(PAGES).as_posix() for file in PAGES.rglob("*.md")]
    (TARGET / "mkdocs.yml").write_text(configuration(sections, pages), encoding="utf-8")


if __name__ == "__main__":
    main()
