"""The table of docs/jax.md: which derivatives of jax functions are kept."""

import pytest
from scripts import ROOT, load_script

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("read_here")]

writer = load_script("tools/write_derivatives.py")


def test_the_table_is_current() -> None:
    text = (ROOT / "docs/jax.md").read_text(encoding="utf-8")
    assert writer.with_table(text, writer.table()) == text, "run `make docs` and read what changed"
