"""Documents show the output of their Python blocks and commands; the README has absolute links."""

from __future__ import annotations

import re
import tomllib

import pytest
from scripts import ROOT, load_script

writer = load_script("tools/write_readme.py")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "blocks"), [("README.md", 9), ("docs/guide.md", 20), ("docs/jax.md", 9)]
)
def test_the_outputs_are_current(document: str, blocks: int) -> None:
    assert ROOT / document in writer.DOCUMENTS
    text = (ROOT / document).read_text(encoding="utf-8")
    # A document without blocks must not pass.
    assert text.count("```python\n") >= blocks
    assert writer.with_outputs(text) == text, "run `make docs` and read what changed"


def test_the_links_of_the_readme_exist() -> None:
    """They are absolute: the page of the package shows the README without the repository."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = dict(re.findall(r"^\[(.+)\]: (\S+)$", text, re.MULTILINE))
    assert len(links) > 15
    for name, address in links.items():
        assert f"[{name}]" in text.replace(f"[{name}]: {address}", ""), name
        path = re.fullmatch(rf"{re.escape(REPOSITORY)}/(?:blob|tree)/main/([^#]+)(#.*)?", address)
        assert path is not None, address
        assert (ROOT / path[1]).exists(), address
    assert "](docs/" not in text


def test_a_wrong_output_is_corrected() -> None:
    text = "```python\nx = 2\nprint(1)\nx + 1\n```\n```text\n5\n```\nthe end\n"
    assert writer.with_outputs(text) == text.replace("5", "1\n3")


def test_an_output_that_differs_only_by_rounding_is_left_unchanged() -> None:
    text = "```python\nprint(0.4082483)\n```\n```text\n0.40824828\n```\n"
    text += "```console\n$ python -c 'print(0.4082483)'\n0.40824828\n```\n"
    assert writer.with_outputs(text) == text
    changed = text.replace("text\n0.40824828", "text\n0.40834828")
    corrected = changed.replace("0.40834828", "0.4082483")
    assert writer.with_outputs(changed) == corrected


def test_an_error_of_the_library_is_an_output() -> None:
    text = (
        "```python\nimport builder as xb\n\nxb.parse_shape('f32[')\n```\n"
        "```text\n"
        "Traceback (most recent call last):\n"
        '  File "example.py", line 3, in <module>\n'
        "    xb.parse_shape('f32[')\n"
        "builder.errors.ShapeTextError: shape text: expected a size, '<=n' or '?', got the end "
        "at position 4\n"
        "  f32[\n"
        "      ^\n"
        "at example.py:3\n"
        "```\n"
    )
    assert writer.with_outputs(text) == text


def test_other_errors_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        writer.with_outputs("```python\n1 / 0\n```\n```text\n```\n")


@pytest.mark.parametrize("text", ["```python\n1\n```\n", "```text\n1\n```\n"])
def test_a_block_without_output_and_an_output_without_block_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an output"):
        writer.with_outputs(text)
