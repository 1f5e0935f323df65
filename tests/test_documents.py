"""The files, tests, make targets and code in README.md, CONTRIBUTING.md and docs/ exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_files_exist(document: Path) -> None:
    text = text_of(document)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    for link in links:
        if not link.startswith("https://"):
            assert (document.parent / link).exists(), link
    paths = re.findall(r"`((?:\w+/)+\w+\.\w+)`", text)
    for path in paths:
        families = ("reshaping", "elementwise")
        assert any((ROOT / path.replace("FAMILY", f)).exists() for f in families), path


def test_the_code_shown_to_contributors_is_that_of_the_project() -> None:
    """Each part of a block between its docstrings, which are abridged, is part of one file."""
    files = [
        "\n".join(line.strip() for line in path.read_text(encoding="utf-8").splitlines())
        for package in ("builder", "lowering")
        for path in (ROOT / package).rglob("*.py")
    ]
    blocks = re.findall(
        r"^ *```python\n(.*?)^ *```$", text_of(ROOT / "CONTRIBUTING.md"), re.M | re.S
    )
    assert len(blocks) == 7
    for block in blocks:
        for part in re.split(r'""".*?"""', block, flags=re.S):
            code = "\n".join(line.strip() for line in part.strip().splitlines())
            assert any(code in file for file in files), code


def test_the_tests_of_contributing_exist() -> None:
    names = set(re.findall(r"\b(test_\w+)\b(?!\.py)", text_of(ROOT / "CONTRIBUTING.md")))
    assert len(names) > 2
    paths = list((ROOT / "tests").rglob("test_*.py"))
    sources = "".join(path.read_text(encoding="utf-8") for path in paths)
    for name in names - {path.stem for path in paths}:
        assert f"def {name}(" in sources, name


def test_make_targets_exist() -> None:
    makefile = text_of(ROOT / "Makefile")
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    for document in DOCUMENTS:
        for target in re.findall(r"`?\bmake ([a-z-]+)`", text_of(document)):
            assert target in targets, f"{document.name}: make {target}"
