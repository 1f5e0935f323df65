"""README.md shows what its Python blocks and its commands really give."""

from __future__ import annotations

import pytest
from scripts import ROOT, load_script

writer = load_script("tools/write_readme.py")


def test_the_outputs_shown_are_those_that_come_out() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    # Asked first, so that a README without blocks could not pass.
    assert text.count("```python\n") > 10
    assert writer.with_outputs(text) == text, "run `make docs` and read what changed"


def test_a_wrong_output_is_put_right() -> None:
    text = "```python\nx = 2\nprint(1)\nx + 1\n```\n```text\n5\n```\nthe end\n"
    assert writer.with_outputs(text) == text.replace("5", "1\n3")


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


def test_any_other_error_stops() -> None:
    with pytest.raises(ZeroDivisionError):
        writer.with_outputs("```python\n1 / 0\n```\n```text\n```\n")


@pytest.mark.parametrize("text", ["```python\n1\n```\n", "```text\n1\n```\n"])
def test_an_output_and_its_block_belong_together(text: str) -> None:
    with pytest.raises(ValueError, match="an output"):
        writer.with_outputs(text)
