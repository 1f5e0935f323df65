"""The grid's outcomes: what is refused is refused before XLA compiles, and nothing else is.

`python -m tests.type_grid` measures the outcomes, which takes many minutes.
"""

from __future__ import annotations

import pytest

import lowering
from lowering.legalize.loaded_modules import check_loaded_module
from tests.recorded_versions import needs_outcomes
from tests.type_grid.__main__ import outcome
from tests.type_grid.cases import CASES, ELEMENT_TYPES, text_of
from tests.type_grid.outcomes import LETTERS, read_table

pytestmark = [needs_outcomes, pytest.mark.slow, pytest.mark.jaxlib]

TABLE = read_table()
REFUSED = [key for key, letter in TABLE.items() if letter == "d"]
RUNNING = [key for key, letter in TABLE.items() if letter == "r"]
ON_ONE_DEVICE = [key for key in RUNNING if CASES[key[0]].replicas * CASES[key[0]].partitions == 1]


def test_the_table_has_no_defects() -> None:
    """XLA's compiler aborted on remainders of complex numbers in each kind of region."""
    assert set(TABLE.values()) <= LETTERS.keys()
    assert {name for name, _ in TABLE} == CASES.keys()
    for name in ("reduce", "reduce_window", "scatter", "map", "select_and_scatter", "all_reduce"):
        assert TABLE[f"{name} of remainder", "c64"] == "d"


def is_refused(key: tuple[str, str]) -> bool:
    module = lowering.load_bytes(text_of(CASES[key[0]], ELEMENT_TYPES[key[1]])).module
    try:
        check_loaded_module(module.operation, "main", "cpu")
    except lowering.CompileError as error:
        return "recorded at -:" in str(error)
    return False


def test_definitions_refuse_these() -> None:
    assert [key for key in REFUSED if not is_refused(key)] == []


def test_definitions_accept_what_runs() -> None:
    assert [key for key in RUNNING[::40] if is_refused(key)] == []


@pytest.mark.parametrize("key", ON_ONE_DEVICE[7::1000], ids=" of ".join)
def test_a_sample_runs(key: tuple[str, str]) -> None:
    assert outcome((*key, False)) == "r"
