"""The training steps of the benchmark: gradients equal jax's, without more products than jax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from processes import interpreter

from benchmarks import derivatives
from benchmarks.command import main
from benchmarks.derivatives import MODELS, compare
from benchmarks.figures import read_figures
from benchmarks.report import report_text
from benchmarks.training_steps import Model

pytestmark = pytest.mark.slow

SMALL = MODELS["small"]


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    """The results of `compare` by title, which are computed when they are first used."""
    return {}


def result_of(model: Model, compared: dict[str, Any]) -> dict[str, Any]:
    if model.title not in compared:
        compared[model.title] = compare(model)
        del compared[model.title]["calls"]  # long in messages of failures
    return compared[model.title]


@pytest.mark.parametrize("model", SMALL, ids=lambda model: model.title)
def test_gradients(model: Model, compared: dict[str, Any]) -> None:
    """`compare` raises an AssertionError if they differ by more than the model's tolerance."""
    assert model.tolerance <= (0.1 if "bf16" in model.title else 1e-4)
    assert result_of(model, compared)["error"] <= model.tolerance


@pytest.mark.parametrize("model", SMALL, ids=lambda model: model.title)
def test_recorded_products(model: Model, compared: dict[str, Any]) -> None:
    products = result_of(model, compared)["products"]
    assert products["ours"] <= products["jax"]


@pytest.mark.parametrize("model", SMALL, ids=lambda model: model.title)
def test_optimized_products(model: Model, compared: dict[str, Any]) -> None:
    products = result_of(model, compared)["optimized"]
    assert products["ours"] <= products["jax"]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "small", SMALL[:1])
    monkeypatch.setattr(derivatives, "fresh_interpreter", interpreter)
    file = tmp_path / "figures.json"
    assert main(["derivatives", "--quick", "--rounds", "1", "--json", str(file)]) == 0
    figures = read_figures(file)
    (entry,) = figures["derivatives"]
    assert entry["model"] == SMALL[0].title
    assert entry["ms"].keys() == {"step", "warm", "cold"}
    for sides in entry["ms"].values():
        assert all(sides[who]["median"] > 0 for who in ("ours", "jax"))
    assert "## Gradients of training steps" in report_text(figures)


def test_a_difference_of_gradients_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SMALL[-2]
    kind = type(model)
    theirs = kind.theirs
    monkeypatch.setattr(kind, "theirs", lambda *arguments: 1.01 * theirs(*arguments))
    with pytest.raises(AssertionError, match="differs from jax's"):
        compare(model)
