"""Test a fixed number of damaged files; `make fuzz` tests more."""

import random

import pytest

from tests.fuzz import seeds
from tests.fuzz.mutations import mutated
from tests.fuzz.workers import Outcome, Worker, keep

pytestmark = pytest.mark.slow

SEED = 1
INPUTS = 250


@pytest.fixture(scope="module")
def worker():
    with Worker() as process:
        yield process


@pytest.fixture(scope="module")
def files():
    return seeds.handful()


def test_undamaged_files_are_read(worker, files):
    outcomes = [worker.outcome(data) for data in files]
    assert outcomes == [Outcome("ok", "")] * len(files)


def test_damaged_files(worker, files, tmp_path):
    """Each is still a program, or is refused with a position."""
    kinds = []
    for number in range(INPUTS):
        data = mutated(random.Random(f"{SEED}-{number}"), files)
        outcome = worker.outcome(data)
        assert not outcome.is_defect, f"{outcome}\nin {keep(tmp_path, data, outcome)}"
        kinds.append(outcome.kind)
    # If one of these were rare, the mutations would be useless.
    assert kinds.count("ok") > INPUTS // 20
    assert kinds.count("refused") > INPUTS // 4


def test_mutations_depend_on_the_seed(files):
    first, again, other = (mutated(random.Random(s), files) for s in ("1-7", "1-7", "1-8"))
    assert first == again != other
