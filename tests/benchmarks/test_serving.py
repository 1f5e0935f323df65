"""Threads, the start of saved programs, tools at scale and virtual devices are measured."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from processes import interpreter

from benchmarks import scale, serving, tools
from benchmarks.budget import evaluate
from benchmarks.command import main
from benchmarks.figures import read_figures
from benchmarks.report import report_text, with_scale, write_report

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def results(figures: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    return {f"{r.graph}: {r.target}": (r.figure, r.met) for r in evaluate(figures)}


def test_threads_and_the_start_of_a_saved_executable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "fresh_interpreter", interpreter)
    monkeypatch.setattr(serving, "PROGRAMS", [serving.PROGRAMS[0]._replace(calls=20)])
    file = tmp_path / "figures.json"
    arguments = ["serving", "--size", "1", "--rounds", "1", "--json", str(file)]
    assert main(arguments) == 0
    figures = read_figures(file)
    (entry,) = figures["threads"]
    for quantity in ("throughput", "median", "slowest of 100"):
        assert all(entry["us"][quantity][who]["median"] > 0 for who in ("ours", "jax"))
    for side in ("ours", "jax"):
        assert entry["us"]["slowest of 100"][side]["least"] >= entry["us"]["median"][side]["least"]
    start = figures["start"]
    for stages in start["ms"].values():
        parts = [stages[stage]["median"] for stage in ("import", "load", "first call")]
        assert stages["total"]["median"] == pytest.approx(sum(parts), rel=1e-2)
    # Only jax.jit compiles.
    assert start["ms"]["jit"]["load"]["median"] > start["ms"]["ours"]["load"]["median"]
    assert "a file of executable.save" in capsys.readouterr().out

    entry["us"]["throughput"]["jax"] |= {"low": 10.0, "median": 11.0, "high": 12.0}
    for low, ratio in ((11.5, 0.69), (12.5, 0.71)):
        entry["us"]["throughput"]["ours"] |= {"low": low, "median": 13.0}
        start["ratios"]["total, ours/jit"] = ratio
        verdicts = [met for _, met in results(figures).values()]
        assert verdicts == [low < 12] * 2
        page = report_text(figures)
        assert "## Threads that call one executable" in page
        assert (
            f"| a saved executable | at most 0.7 times jax.jit's start | {ratio:.2f} times" in page
        )


def test_threads_compute_the_same_in_both() -> None:
    factors = iter((1.0, 2.0))
    wrong = serving.PROGRAMS[0]._replace(body=lambda x, y: (x + y) * next(factors))
    with pytest.raises(AssertionError, match="Not equal"):
        serving.measure_threads([wrong], rounds=1, seconds=1.0, on_progress=lambda _: None)


def test_tools(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    assert main(["tools", "--quick", "--rounds", "1", "--json", str(file)]) == 0
    figures = read_figures(file)
    ops = {entry["what"]: entry["ops"] for entry in figures["tools"]}
    assert list(ops) == [
        tools.TEXT,
        tools.COMPARED,
        tools.SAVED + ".mlirbc",
        tools.SAVED + ".stablehlo",
        tools.EXPORTED,
        tools.INSPECTED,
    ]
    assert {ops.pop(tools.EXPORTED), ops.pop(tools.INSPECTED)} == {2}
    assert "## Tools at scale" in report_text(figures)
    for entry in figures["tools"]:
        entry["ops"] = 10_000
        entry["ms"]["ours"]["median"] = 510.0
        entry["ratios"]["ours/reference"] = 1.5
    assert results(figures) == {
        f"{tools.TEXT}, 10,000 ops: at most 50 us a row": ("51.0 us", False),
        f"{tools.COMPARED}, 10,000 ops: compare at most 2 times computing all values": (
            "1.50 times",
            True,
        ),
        "save as .mlirbc, 10,000 ops: saved as bytecode in at most 1 times its lowering": (
            "1.50 times",
            False,
        ),
        **{
            f"{what}, 10,000 ops: at most 0.65 times jax's lowering": ("1.50 times", False)
            for what in (tools.EXPORTED, tools.INSPECTED)
        },
    }


def test_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "DEVICES", (8,))
    file = tmp_path / "figures.json"
    assert main(["scale", "--rounds", "1", "--json", str(file)]) == 0
    figures = read_figures(file)
    (first,) = figures["scale"]
    assert first["devices"] == 8
    for step, sides in first["ms"].items():
        assert sides.keys() == ({"ours"} if step == "legalize" else {"ours", "jax"})
        assert all(values["least"] > 0 for values in sides.values())

    last = copy.deepcopy(first) | {"devices": 16}
    figures["scale"].append(last)
    for entry in (first, last):
        for sides in entry["ms"].values():
            for values in sides.values():
                values |= {"low": 1.0, "median": 1.0, "high": 1.0}
        entry["ratios"] = dict.fromkeys(entry["ratios"], 1.0)
    assert [met for _, met in results(figures).values()] == [True] * 3
    last["ms"]["lower"]["ours"]["median"] = 1.6
    last["ms"]["read"]["ours"] |= {"low": 2.1, "median": 2.2}
    last["ratios"]["read, ours/jax"] = 2.2
    assert list(results(figures).values()) == [
        ("1.60 times (lower)", False),
        ("2.20 times (read)", False),
        ("2.20 times (read)", False),
    ]
    last["ms"]["lower"]["jax"]["median"] = 1.7
    assert [met for _, met in results(figures).values()] == [True, False, False]
    last["ms"]["lower"]["jax"]["median"] = 1.0
    assert "virtual" not in report_text(figures)

    # The table is in another page.
    page = tmp_path / "distributed.md"
    page.write_text(with_scale((ROOT / "docs" / "distributed.md").read_text(), {}))
    assert "Not measured." in page.read_text()
    write_report(figures, tmp_path)
    assert "| lower | 1.00 | 1.00 | 1.60 | 1.00 | 1.6× | 1.0× |" in page.read_text()


def test_the_page_of_several_devices_matches_the_figures() -> None:
    figures = read_figures(ROOT / "docs" / "performance" / "figures.json")
    page = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")
    assert page == with_scale(page, figures), (
        "python -m benchmarks report docs/performance/figures.json"
    )
