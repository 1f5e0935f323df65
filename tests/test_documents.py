"""The files, tests, make targets and code in README.md, CONTRIBUTING.md and docs/ exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts import ROOT, load_script
from tables import each_row

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

writer = load_script("tools/write_readme.py")
TESTED_ELSEWHERE = {"CONTRIBUTING.md", "shape_inference.md", "xla_client.md"}
"""Documents whose Python blocks have no output, with a test of their own."""


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


@each_row("document", DOCUMENTS)
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


def test_every_document_with_python_is_tested() -> None:
    with_python = {d.name for d in DOCUMENTS if "```python\n" in text_of(d)}
    assert with_python == {d.name for d in writer.DOCUMENTS} | TESTED_ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize(
    "document",
    [
        d for d in writer.DOCUMENTS if d.name not in ("README.md", "guide.md", "jax.md")
    ],  # in test_readme.py
    ids=lambda d: d.name,
)
def test_the_outputs_are_current(
    document: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Libraries of C++ must not be written to the user's folder.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp()))
    monkeypatch.setattr("sys.path", [*sys.path])  # a block extends it
    text = text_of(document)
    assert writer.with_outputs(text) == text, "run `make docs` and read what changed"


def test_both_programs_of_the_page_of_xla_client_run() -> None:
    text = text_of(ROOT / "docs" / "xla_client.md")
    programs = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(programs) == 2
    for program in programs:
        names = {"np": np, "__name__": "__main__"}
        exec(program, names)
        np.testing.assert_array_equal(names["y"], [2, 3, 4])


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
    assert len(blocks) == 6
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
