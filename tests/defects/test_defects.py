"""Each defect that `lowering.legalize` works around occurs, and the rewrite works around it.

`reproducer` describes the files. If a new jaxlib fixes a defect, the first test here fails: then
set `fixed_in` of the rewrite, and add an observation to the file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from scripts import ROOT, load_script
from tables import each_row

from lowering.legalize.registry import ALL_PLATFORMS, ARTIFACT, INTERPRETER, Rewrite
from tests.defects.reproducer import all_reproducers, differing_results, read
from tests.recorded_versions import RECORDED, VERSION, needs_outcomes

pytestmark = pytest.mark.jaxlib

_SCRIPT = load_script("tools/write_defects.py")
described, ALL_REWRITES = _SCRIPT.described, _SCRIPT.ALL_REWRITES


@pytest.fixture(scope="module")
def run_plain() -> Iterator[Callable[[str, int], tuple[int, str]]]:
    """The function that runs a reproducer without rewrites, as `run_plain` describes."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.defects.run_plain"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # XLA's last messages
        env=os.environ | {"XLA_FLAGS": ""},  # without those of the tests
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(name: str, seconds: int) -> tuple[int, str]:
            print(name, seconds, file=stdin, flush=True)
            status, printed = json.loads(stdout.readline())
            return status, printed

        yield run


@needs_outcomes
@pytest.mark.slow
@pytest.mark.parametrize("name", all_reproducers())
def test_xla_has_the_defect(name: str, run_plain: Callable[[str, int], tuple[int, str]]) -> None:
    """Each program runs in a separate process, because XLA aborts on many of them."""
    expected = read(name).observed[VERSION]
    # Compilation that hangs would take minutes.
    status, printed = run_plain(name, 3 if expected == "hangs" else 60)
    if status == -signal.SIGALRM:
        observed = "hangs"
    elif status < 0:
        observed = "aborts"
    else:
        assert status == 0, printed
        observed = printed.split()[0]
    assert observed == expected


@pytest.mark.usefixtures("optimized")
@each_row("name", all_reproducers())
def test_compile_works_around_it(name: str) -> None:
    assert not differing_results(read(name))


def test_the_committed_page_is_up_to_date() -> None:
    committed = (ROOT / "docs" / "xla_defects.md").read_text(encoding="utf-8")
    assert committed == _SCRIPT.page(), "run `make docs`"


def test_every_reproducer_belongs_to_a_rewrite() -> None:
    named = [name for rewrite in ALL_REWRITES for name in described(rewrite).reproducers]
    assert sorted(named) == all_reproducers()


@each_row("rewrite", ALL_REWRITES)
def test_the_versions_of_a_rewrite_are_those_observed(rewrite: Rewrite) -> None:
    reproducers = described(rewrite).reproducers
    if not reproducers:
        assert not rewrite.fixed_in, "fixed_in requires a reproducer"
        return
    observed = [read(name).observed for name in reproducers]
    newest = {RECORDED[-1] if RECORDED[-1] in each else max(each) for each in observed}
    is_fixed = all(each[version] == "right" for each in observed for version in newest & set(each))
    assert is_fixed == (rewrite.fixed_in is not None)
    assert set(rewrite.platforms) <= {*ALL_PLATFORMS, ARTIFACT, INTERPRETER}
