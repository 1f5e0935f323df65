"""The defects of XLA that `lowering.legalize` works around: each is shown, and worked around.

`reproducer` describes the files. A new jaxlib that mends a defect fails the first test here: then
the rewrite gets `fixed_in`, and the file another observation.
"""

from __future__ import annotations

import subprocess
import sys

import jaxlib
import numpy as np
import pytest
from scripts import ROOT, load_script

import lowering
from lowering.legalize.registry import ALL_PLATFORMS, ARTIFACT, INTERPRETER
from tests.defects.reproducer import all_reproducers, read, same

_SCRIPT = load_script("tools/write_defects.py")
described, ALL_REWRITES = _SCRIPT.described, _SCRIPT.ALL_REWRITES

VERSION = ".".join(jaxlib.__version__.split(".")[:2])


@pytest.mark.parametrize("name", all_reproducers())
def test_xla_has_the_defect(name: str) -> None:
    """In a process of its own, since many end it."""
    expected = read(name).observed[VERSION]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.defects.run_plain", name],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=15 if expected == "hangs" else 60,  # it takes minutes
            check=False,
        )
    except subprocess.TimeoutExpired:
        found = "hangs"
    else:
        if done.returncode < 0:
            found = "aborts"
        else:
            assert done.returncode == 0, done.stderr
            found = done.stdout.split()[0]
    assert found == expected


@pytest.mark.parametrize("name", all_reproducers())
def test_compile_works_around_it(name: str) -> None:
    reproducer = read(name)
    module = lowering.load_bytes(reproducer.module)
    if reproducer.replicas == 1:
        results = lowering.compile(module, "cpu")(*reproducer.arguments)
        each = [results]
    else:
        program = lowering.compile(module, "cpu", num_replicas=reproducer.replicas)
        each = program(*([one] * reproducer.replicas for one in reproducer.arguments))
    for one in each:
        flat = list(one) if isinstance(one, (tuple, list)) else [one]
        assert same(flat, reproducer.want), [np.asarray(value) for value in flat]


def test_the_committed_page_is_what_the_script_writes() -> None:
    committed = (ROOT / "docs" / "xla_defects.md").read_text(encoding="utf-8")
    assert committed == _SCRIPT.page(), "run `make docs`"


def test_every_reproducer_belongs_to_a_rewrite() -> None:
    named = [name for one in ALL_REWRITES for name in described(one).shown_by]
    assert sorted(named) == all_reproducers()


@pytest.mark.parametrize("one", ALL_REWRITES, ids=lambda one: one.apply.__name__)
def test_what_a_rewrite_says_is_what_was_observed(one: object) -> None:
    description = described(one)
    if not description.shown_by:
        assert not one.fixed_in, "a rewrite that is not needed any more shows so by a reproducer"
        return
    observed = [read(name).observed for name in description.shown_by]
    newest = {"0.12" if "0.12" in each else max(each) for each in observed}
    is_fixed = all(each[version] == "right" for each in observed for version in newest & set(each))
    assert is_fixed == (one.fixed_in is not None)
    assert set(one.platforms) <= {*ALL_PLATFORMS, ARTIFACT, INTERPRETER}
