"""The notebook runs, its outputs are those of a run, and the file that it mends is mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import notebook_checks
import numpy as np
import pytest
from notebook_checks import code_cells, shown

import lowering


@pytest.fixture(scope="module")
def committed() -> Any:
    return notebook_checks.committed("03_files.ipynb")


def test_the_outputs_are_those_of_a_run(committed: Any, tmp_path: Path) -> None:
    notebook_checks.check_outputs(committed, tmp_path, 12)
    # The file that it saved is the model as it was meant.
    rng = np.random.default_rng(1)
    features, weights = rng.normal(size=(4, 16)), rng.normal(size=(16, 3))
    run = lowering.compile(lowering.load(tmp_path / "work" / "repaired.stablehlo"))
    found = run(features.astype(np.float32), weights.astype(np.float32), np.float32(200))
    scores = np.tanh(features @ weights) * 200
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, odds / odds.sum(axis=1, keepdims=True), atol=1e-3)


def test_it_was_run_from_top_to_bottom(committed: Any) -> None:
    notebook_checks.check_was_run(committed)


def test_nothing_of_the_machine_is_in_it(committed: Any) -> None:
    notebook_checks.check_says_nothing_of_the_machine(committed)


def test_it_finds_the_line(committed: Any) -> None:
    cells = code_cells(committed)
    model = cells[0].source.splitlines()[1:]  # without "%%writefile"
    (found,) = [text for cell in cells for text in shown(cell) if "line " in text[-10:]]
    number = int(found.split()[-1])
    assert model[number - 1].strip() == "odds = jnp.exp(scores)"
