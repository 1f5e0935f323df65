"""A bounded time of damaged files; for longer: `make fuzz`."""

import random

import pytest

from tests.fuzz import seeds
from tests.fuzz.mutations import mutated
from tests.fuzz.workers import Outcome, Worker, keep

SEED = 1
INPUTS = 250


@pytest.fixture(scope="module")
def worker():
    with Worker() as found:
        yield found


@pytest.fixture(scope="module")
def files():
    return seeds.handful()


def test_sound_files_are_sound(worker, files):
    outcomes = [worker.outcome(data) for data in files]
    assert outcomes == [Outcome("ok", "")] * len(files)


def test_damaged_files(worker, files, tmp_path):
    """Each is a program still, or is refused in words that say where."""
    kinds = []
    for number in range(INPUTS):
        data = mutated(random.Random(f"{SEED}-{number}"), files)
        outcome = worker.outcome(data)
        assert not outcome.is_defect, f"{outcome}\nin {keep(tmp_path, data, outcome)}"
        kinds.append(outcome.kind)
    # Were one of these rare, nothing much would have been tried.
    assert kinds.count("ok") > INPUTS // 20
    assert kinds.count("refused") > INPUTS // 4


def test_a_seed_names_an_input(files):
    first, again, other = (mutated(random.Random(s), files) for s in ("1-7", "1-7", "1-8"))
    assert first == again != other
