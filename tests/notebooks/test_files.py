"""The notebook runs, its outputs match, and it repairs the file."""

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


def test_the_outputs_match_a_run(committed: Any, tmp_path: Path) -> None:
    notebook_checks.check_outputs(committed, tmp_path, 12)
    # The saved file computes the correct softmax.
    rng = np.random.default_rng(1)
    features, weights = rng.normal(size=(4, 16)), rng.normal(size=(16, 3))
    run = lowering.compile(lowering.load(tmp_path / "work" / "repaired.stablehlo"))
    result = run(features.astype(np.float32), weights.astype(np.float32), np.float32(200))
    scores = np.tanh(features @ weights) * 200
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(result, odds / odds.sum(axis=1, keepdims=True), atol=1e-3)


def test_cells_were_run_in_order(committed: Any) -> None:
    notebook_checks.check_was_run(committed)


def test_outputs_do_not_depend_on_the_machine(committed: Any) -> None:
    notebook_checks.check_is_portable(committed)


def test_it_locates_the_line(committed: Any) -> None:
    cells = code_cells(committed)
    model = cells[0].source.splitlines()[1:]  # without "%%writefile"
    (output,) = [text for cell in cells for text in shown(cell) if "line " in text[-10:]]
    number = int(output.split()[-1])
    assert model[number - 1].strip() == "odds = jnp.exp(scores)"
