"""The benchmarks run, at sizes at which they say nothing about time."""

from __future__ import annotations

import ast
import copy
import gc
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

import pytest
from jaxlib.mlir import ir
from rich.console import Console

import builder as xb
import lowering
from benchmarks import cold, guard, out_of_reach
from benchmarks.budget import held
from benchmarks.command import main
from benchmarks.contenders import code_of, contenders, counts, large_arrays
from benchmarks.figures import FiguresError, read_entries, read_figures, replace
from benchmarks.floor import Floor
from benchmarks.graphs import GRAPHS, constants, control_flow
from benchmarks.guard import check, losses
from benchmarks.imports import IMPORTS, import_script
from benchmarks.languages import ours
from benchmarks.report import report_text, write_report
from benchmarks.steps import CONTENDERS, STEPS, ratios_of
from benchmarks.tables import Table, budget_tables, show
from benchmarks.timing import ContenderError, in_turns, spread

ROOT = Path(__file__).resolve().parents[2]

# A Python that answers as benchmarks.peer does, and dies at the second request.
PEER = """\
#!{python}
import json, os, sys
print(json.dumps({{"Python": "3.11.9", "jaxlib": "0.6.0"}}), flush=True)
for number, line in enumerate(sys.stdin):
    request = json.loads(line)
    if number == {answers}:
        os.abort()
    print(json.dumps({{"xla_builder_record": 1e-3, "xla_builder_convert": 2e-3}}), flush=True)
"""


@pytest.fixture(autouse=True, scope="module")
def _small_heap() -> Iterator[None]:
    """Each measurement collects garbage first; that of the other tests is not walked each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def peer(tmp_path: Path) -> Callable[[int], str]:
    def made(answers: int) -> str:
        file = tmp_path / f"peer_{answers}"
        file.write_text(PEER.format(python=sys.executable, answers=answers))
        file.chmod(0o755)
        return str(file)

    return made


def spread_is_whole(found: dict[str, float], rounds: int) -> bool:
    ordered = [found[key] for key in ("least", "low", "median", "high")]
    return ordered == sorted(ordered) and ordered[0] > 0 and found["rounds"] == rounds


def test_a_graph_and_its_figures(
    tmp_path: Path, peer: Callable[[int], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    words = ["chain", "--size", "12", "--rounds", "2", "--json", str(file)]
    assert main([*words, "--plots", str(tmp_path / "plots"), "--peer-python", peer(9)]) == 0
    figures = read_figures(file)
    assert figures["versions"].keys() >= {"Python", "jax", "jaxlib", "numpy"}
    assert figures["machine"]["cores"] > 0
    assert figures["peer"] == {"Python": "3.11.9", "jaxlib": "0.6.0"}
    assert (figures["rounds"], figures["quick"]) == (2, False)
    (entry,) = figures["graphs"].values()
    # Two arguments, twelve operations and the tuple of the results; in the module two of these
    # are functions and returns instead.
    assert (entry["size"], entry["ops"], entry["computations"]) == (12, 15, 1)
    assert entry["operations"] == 14
    assert entry["us"].keys() == STEPS.keys() - {"data"}  # the chain has no large constants
    collector = entry["us"].pop("collector")  # which has nothing to do for fifteen objects
    assert 0 <= collector["least"] <= collector["median"] <= collector["high"]
    assert all(spread_is_whole(us, 2) for us in entry["us"].values())
    assert entry["us"]["xla_builder_convert"]["median"] == pytest.approx(2000 / 15, rel=1e-3)
    assert entry["missing"] == {}
    ours = entry["us"]["record"]["median"] + entry["us"]["lower"]["median"]
    assert entry["ratios"]["ours/xla_builder"] == pytest.approx(ours * 15 / 3000, rel=1e-2)
    assert entry["memory"]["recorded_bytes"] > 50
    assert entry["memory"]["peak_bytes"] > 10e6
    printed = capsys.readouterr().out
    for step in STEPS.values():
        assert step.title in printed
    assert "<svg" in (tmp_path / "plots" / "graphs.svg").read_text()


def test_sizes_ends_and_imports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Compiling all modules of jax into a temporary folder takes seconds.
    monkeypatch.delitem(IMPORTS, "lowering")
    file = tmp_path / "figures.json"
    words = ["scaling", "end_to_end", "imports", "--modules", "--quick"]
    assert main([*words, "--size", "10", "--rounds", "1", "--json", str(file)]) == 0
    figures = read_figures(file)
    assert "graphs" not in figures
    (entry,) = figures["scaling"]["chain"]
    assert entry["us"].keys() == {
        step for step, s in STEPS.items() if s.large and s.contender != "xla_builder"
    }
    (pair,) = figures["end_to_end"]
    for who in ("ours", "jax"):
        stages = {stage: ms["median"] for stage, ms in pair["ms"][who].items()}
        parts = [stages[stage] for stage in ("record", "lower", "compile", "run")]
        assert min(parts) > 0
        assert stages["total"] == pytest.approx(sum(parts), rel=1e-2)
    assert figures["imports"]["builder"]["over"] == "numpy"
    printed = capsys.readouterr().out
    assert "From the first op to the first result" in printed
    assert "What takes longest of import builder" in printed
    assert "ms builder." in printed or " builder." in printed

    write_report(figures, tmp_path / "docs")
    page = (tmp_path / "docs" / "performance.md").read_text()
    assert figures["machine"]["processor"] in page
    assert "| builder | import at most 50 ms beyond numpy's |" in page
    plot = tmp_path / "docs" / "performance" / "scaling_chain.svg"
    before = plot.read_bytes()
    write_report(figures, tmp_path / "docs")
    assert plot.read_bytes() == before


def test_a_peer_that_dies_is_a_line_in_the_table(
    tmp_path: Path, peer: Callable[[int], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    words = ["scaling", "--size", "10", "--rounds", "1", "--json", str(file)]
    assert main([*words, "--peer-python", peer(0)]) == 0
    (entry,) = read_figures(file)["scaling"]["chain"]
    assert entry["missing"].keys() == {"xla_builder"}
    assert "died of SIGABRT" in entry["missing"]["xla_builder"]
    assert "jax_trace" in entry["us"]
    assert "died of SIGABRT" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chian"], "there is no benchmark 'chian'; there are chain, "),
        (["check", "graphs"], "there is no benchmark 'graphs'"),
        (["chain", "--rounds", "0"], "invalid positive number value: '0'"),
        (["chain", "--peer-python", "/nowhere/python"], "--peer-python: /nowhere/python can't be"),
        (["chain", "--peer-python", "/bin/true"], "--peer-python: /bin/true ended with status 0"),
        (["chain", "--peer-python", "/bin/echo"], "--peer-python: /bin/echo is no Python"),
        (["chain", "--peer-python", sys.executable], "has no XlaBuilder"),
        (["chain", "--json", "/nowhere/figures.json"], "--json: there is no folder /nowhere"),
        (["chain", "--json", "/"], "--json: / is a folder"),
        (["chain", "--plots", "/dev/null/plots"], "--plots: /dev/null/plots can't be made"),
        (["check", "--update", "chain", "--file", "/nowhere/ratios.json"], "no folder /nowhere"),
        (["report", "/nowhere/figures.json"], "/nowhere/figures.json can't be read"),
        (["check", "--file", "/nowhere/ratios.json"], "/nowhere/ratios.json can't be read"),
    ],
)
def test_what_cannot_be_done_is_said_on_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(words)
    except SystemExit as exit:
        status = exit.code
    assert status == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_import_lowering_is_measured_beyond_jax() -> None:
    assert IMPORTS["lowering"] == "jax"
    done = subprocess.run(
        [sys.executable, "-c", import_script("lowering", "jax")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    passed, worked, base_passed, base_worked = map(float, done.stdout.split())
    assert min(passed, worked, base_passed, base_worked) > 0


def test_files_without_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    sizeless = {"date": "", "sizes": {}, "ratios": {"chain": {"a/b": "1"}}}
    for words, text, said in (
        (["report"], "{", "is no JSON"),
        (["report"], "[]", "holds no figures"),
        (["report"], '{"format": 1}', "there is no date"),
        (["check", "--file"], '{"format": 1}', "holds no ratios: there is no entries"),
        (
            ["check", "--file"],
            json.dumps({"format": 1, "entries": {"any": sizeless}}),
            "entries.any.ratios.chain.a/b is '1'",
        ),
    ):
        file.write_text(text)
        assert main([*words, str(file)]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert said in lines[0]


def test_a_page_is_not_made_of_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    source = ROOT / "docs" / "performance" / "figures.json"
    assert main(["report", str(source), "--docs", str(docs)]) == 0
    before = {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()}
    assert before.keys() >= {docs / "performance.md", docs / "performance" / "figures.json"}
    spoilt = tmp_path / "figures.json"
    for keys, said in (
        (("graphs", "chain", "us", "jax_trace", "median"), "graphs.chain.us.jax_trace.median"),
        (("scaling", "chain", 0, "ops"), "scaling.chain[0].ops"),
        (("machine",), "machine"),
    ):
        figures = inside = json.loads(source.read_text())
        for key in keys[:-1]:
            inside = inside[key]
        del inside[keys[-1]]
        spoilt.write_text(json.dumps(figures))
        assert main(["report", str(spoilt), "--docs", str(docs)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith(f"holds no figures of a run: there is no {said}")
    assert main(["report", str(guard.RATIOS_FILE), "--docs", str(docs)]) == 2
    assert "holds no figures of a run" in capsys.readouterr().err
    # Nor is anything left beside what stood there.
    assert {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()} == before


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    replace(file, "old")
    with pytest.raises(UnicodeEncodeError):
        replace(file, "new \ud800")
    assert file.read_text() == "old"
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(FiguresError, match="folder can't be written"):
        replace(folder, "new")
    assert [path.name for path in folder.iterdir()] == []


def test_packing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    words = ["packing", "--size", "1000000", "--rounds", "1"]
    assert main([*words, "--json", str(file)]) == 0
    figures = read_figures(file)
    entries = {entry["shape"]: entry for entry in figures["packing"]}
    entry = entries["f32[1000,1000]{1,0:T(8,128)}"]
    assert entry["elements"] == 1_000_000
    assert entry["ms"].keys() == {"pack", "unpack", "copy", "fresh"}
    assert all(spread_is_whole(ms, 1) for ms in entry["ms"].values())
    packed, copied = (entry["ms"][name]["median"] for name in ("pack", "copy"))
    assert entry["ratios"]["pack/copy"] == pytest.approx(packed / copied, rel=1e-2)
    printed = capsys.readouterr().out
    assert "f32[1000,1000]{0,1}" in printed
    assert "in at most 3 times a copy" not in printed  # promised of arrays that fill no cache

    entry["elements"] = 100_000_000
    for ratio, verdict in ((2.9, "2.90 times | met |"), (3.1, "3.10 times | NOT met |")):
        entry["ratios"]["pack/copy"] = ratio
        page = report_text(figures)
        assert "## Arrays and their buffers" in page
        assert f"| packed in at most 3 times a copy | {verdict}" in page


def test_cold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    # Compiling all modules of jax into a temporary folder takes seconds.
    monkeypatch.setattr(cold, "fresh_interpreter", lambda _: python)
    file = tmp_path / "figures.json"
    words = ["cold", "--quick", "--size", "2", "--rounds", "2", "--json", str(file)]
    assert main(words) == 0
    figures = read_figures(file)
    (entry,) = figures["cold"]
    assert (entry["graph"], entry["size"]) == ("layers", 2)
    assert entry["ops"] == counts(ours.record(GRAPHS["layers"], 2))["ops"]
    for side in ("ours", "jax"):
        assert all(spread_is_whole(ms, 2) for ms in entry["ms"][side].values())
        parts = [entry["ms"][side][stage]["least"] for stage in ("import", "record", "lower")]
        assert entry["ms"][side]["total"]["least"] >= 0.999 * sum(parts)
    totals = [entry["ms"][side]["total"]["median"] for side in ("ours", "jax")]
    assert entry["ratios"]["total, ours/jax"] == pytest.approx(totals[0] / totals[1], rel=1e-2)
    assert "The first build in a fresh process" in capsys.readouterr().out
    page = report_text(figures)
    assert "## The first build in a fresh process" in page
    assert "| layers | " in page


def test_dispatch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    words = ["dispatch", "--size", "2", "--rounds", "1", "--quick"]
    assert main([*words, "--json", str(file)]) == 0
    figures = read_figures(file)
    entries = {entry["kind"]: entry for entry in figures["dispatch"]}
    entry = entries["device"]
    assert (entry["arguments"], entry["results"]) == (2, 2)
    assert entry["us"].keys() == {"ours", "lowering.jit", "jax"} == entries["NumPy"]["us"].keys()
    assert all(spread_is_whole(us, 1) for us in entry["us"].values())
    ours, theirs = (entry["us"][name]["median"] for name in ("ours", "jax"))
    assert entry["ratios"]["ours/jax"] == pytest.approx(ours / theirs, rel=1e-2)
    assert "2 in, 2 out" in capsys.readouterr().out

    entry["us"]["jax"] |= {"low": 10.0, "median": 11.0, "high": 12.0}
    for low, verdict in ((11.5, "met"), (12.5, "NOT met")):
        entry["us"]["ours"] |= {"low": low, "median": 13.0}
        page = report_text(figures)
        assert "## Calls" in page
        held = next(line for line in page.splitlines() if "no longer than jax.jit's" in line)
        assert held.endswith(f"| {verdict} |")


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    for name in (
        *GRAPHS,
        "scaling",
        "end_to_end",
        "cold",
        "imports",
        "packing",
        "dispatch",
        "--peer-python",
    ):
        assert name in done.stdout


FILLING = """\
import resource, sys
from benchmarks.timing import keep_freed_memory
def pages(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
kept = sys.argv[1] == "kept" and keep_freed_memory()
found = [pages()]
for _ in range(2):
    b"x" * (int(sys.argv[2]) << 20)
    found.append(pages())
print(kept, found[1] - found[0], found[2] - found[1])
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["chain", "packing", "--size", "40"], ["packing", "memory", "graph"]),
        (["packing", "--size", "40"], ["packing", "memory"]),
        (["check", "chain"], ["memory", "check"]),
    ],
)
def test_arrays_are_packed_before_memory_is_kept(
    words: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy to a new array waits for its pages, as it does for a user."""
    order: list[str] = []

    def measured(name: str) -> Callable[..., Any]:
        return lambda *_, **__: order.append(name) or {}

    monkeypatch.setattr("benchmarks.packing.measure_packing", measured("packing"))
    monkeypatch.setattr("benchmarks.measuring.measure_graph", measured("graph"))
    monkeypatch.setattr("benchmarks.guard.check", measured("check"))
    monkeypatch.setattr("benchmarks.command._print", lambda figures: None)
    main(words, before_graphs=lambda: order.append("memory"))
    assert order == expected


def test_memory_that_was_freed_is_kept() -> None:
    """As the system counts the pages that it gives: who fills memory again waits for none."""

    def filled(*arguments: str) -> list[str]:
        command = [sys.executable, "-c", FILLING, *arguments]
        return subprocess.check_output(command, cwd=ROOT, text=True).split()

    is_glibc = platform.libc_ver()[0] == "glibc"
    kept, first, again = filled("kept", "64")
    assert kept == str(is_glibc)
    if is_glibc:
        assert int(again) < int(first) / 10
        _, first, again = filled("not", "64")
        assert int(again) > int(first) / 2


def test_the_page_is_made_of_its_figures() -> None:
    figures = read_figures(ROOT / "docs" / "performance" / "figures.json")
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page == report_text(figures), "python -m benchmarks report docs/performance/figures.json"


# The guard


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("ratios") / "ratios.json"
    assert main(["check", "--update", "chain", "--size", "10", "--file", str(file)]) == 0
    return file.read_text()


@pytest.fixture
def ratios(tmp_path: Path, written: str) -> Path:
    file = tmp_path / "ratios.json"
    file.write_text(written)
    return file


def kept_ratios(file: Path) -> dict[str, float]:
    (entry,) = json.loads(file.read_text())["entries"].values()
    found: dict[str, float] = entry["ratios"]["chain"]
    return found


def test_what_update_writes_is_compared(ratios: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(ratios.read_text())
    kept = kept_ratios(ratios)
    assert kept.keys() >= {"ours/jax", "lower/floor", "bytecode/floor"}
    for factor, status in ((100, 0), (0.01, 1)):
        changed = copy.deepcopy(content)
        (entry,) = changed["entries"].values()
        entry["ratios"]["chain"] = {name: value * factor for name, value in kept.items()}
        ratios.write_text(json.dumps(changed))
        assert main(["check", "--file", str(ratios)]) == status
    # Nothing is that much faster or slower than itself, be it ever so noisy.
    printed = capsys.readouterr().out
    assert "No ratio is more than 30% worse than in ratios.json" in printed
    assert "Slower than before" in printed


def test_a_loss_of_31_percent_fails_and_one_of_29_does_not(ratios: Path) -> None:
    kept = kept_ratios(ratios)
    for loss, status in ((1.31, 1), (1.29, 0), (0.5, 0)):
        asked: list[str] = []

        def measure(name: str, size: int, loss: float = loss, asked: list[str] = asked) -> Any:
            asked.append(name)
            assert size == 10
            return kept | {"lower/floor": kept["lower/floor"] * loss}

        console = Console(record=True, width=100, file=Path(os.devnull).open("w"))  # noqa: SIM115
        assert check(ratios, console, lambda _: None, measure=measure) == status
        console.file.close()
        # What seems to be a loss is measured again.
        assert len(asked) == (3 if status else 1)
        assert ("+31%" in console.export_text()) == bool(status)


def test_a_loss_that_goes_away_is_none(ratios: Path) -> None:
    kept = kept_ratios(ratios)
    factors = iter((2.0, 1.1))

    def measure(name: str, size: int) -> dict[str, float]:
        factor = next(factors)
        return {ratio: value * factor for ratio, value in kept.items()}

    assert check(ratios, Console(quiet=True), lambda _: None, measure=measure) == 0


def test_a_ratio_that_is_held_must_be_measured(
    ratios: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"a/b": 1.5, "c/d": 1.0, "e/f": 9.0}
    assert losses("g", {"a/b": 1.0, "c/d": 1.0}, found) == [["a/b", "1.000", "1.500", "+50%"]]
    del found["c/d"]
    with pytest.raises(FiguresError, match="g: was not measured, but is held: c/d"):
        losses("g", {"a/b": 1.0, "c/d": 1.0}, found)

    kept = kept_ratios(ratios)
    # As if jax, a contender, could not run.
    monkeypatch.setattr(
        guard,
        "measure_ratios",
        lambda name, size: {ratio: v for ratio, v in kept.items() if "jax" not in ratio},
    )
    assert main(["check", "--file", str(ratios)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "chain: was not measured, but is held: ours/jax" in line


def test_a_graph_named_must_have_ratios(ratios: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "lstm", "--file", str(ratios)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "has no ratios of lstm for Python" in line
    assert f"python -m benchmarks check --update lstm --file {ratios}" in line


def test_ratios_of_another_size_are_not_compared(
    ratios: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "chain", "--size", "20", "--file", str(ratios)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "has ratios of another size (chain 10), which can't be compared" in line
    quiet, kept = Console(quiet=True), kept_ratios(ratios)

    def measure(name: str, size: int) -> Any:
        return kept

    assert check(ratios, quiet, str, names=["chain"], size=10, measure=measure) == 0


def test_an_update_of_one_graph_leaves_the_others(ratios: Path) -> None:
    kept = kept_ratios(ratios)
    values = iter((3.0, 2.0, 4.0))

    def measure(name: str, size: int) -> Any:
        return {"ours/jax": next(values)}

    assert (
        check(
            ratios, Console(quiet=True), str, names=["lstm"], size=7, update=True, measure=measure
        )
        == 0
    )
    (entry,) = json.loads(ratios.read_text())["entries"].values()
    # The least of as many measurements as a loss is judged by.
    assert entry["ratios"] == {"chain": kept, "lstm": {"ours/jax": 2.0}}
    assert entry["sizes"] == {"chain": 10, "lstm": 7}


def test_every_graph_is_guarded() -> None:
    for entry in read_entries(guard.RATIOS_FILE).values():
        assert entry["ratios"].keys() == entry["sizes"].keys() == {*GRAPHS, "cold"}
        for name, ratios in entry["ratios"].items():
            if name == "cold":
                assert ratios.keys() == {"total, ours/jax"}
            else:
                held = {"ours/jax", "lower/jax_lower", "lower/floor", "bytecode/floor"}
                assert ratios.keys() >= held


def test_artifact_and_text_are_guarded_of_some() -> None:
    for name in guard.WRITTEN:
        found = guard.measure_ratios(name, GRAPHS[name].sizes[0])
        assert found.keys() >= {"artifact/floor", "hlo_text/floor"}


def test_other_versions_need_ratios_of_their_own(
    ratios: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(ratios.read_text())
    (entry,) = content["entries"].values()
    content["entries"] = {"Python 2.7, jax 0.1": entry}
    ratios.write_text(json.dumps(content))
    assert main(["check", "--file", str(ratios)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "has no ratios of Python" in line
    assert f"python -m benchmarks check --update --file {ratios}" in line
    found = {"ours/jax": 0.1}
    check(ratios, Console(quiet=True), str, names=["chain"], update=True, measure=lambda *_: found)
    assert len(json.loads(ratios.read_text())["entries"]) == 2


# What the figures are made of


def test_the_floor_makes_the_same_module() -> None:
    b = xb.XlaBuilder("loop")
    x = b.parameter(xb.f32[3], "x")
    total = xb.reduce(x, 0.0, xb.add, [0])
    doubled = xb.while_(lambda s: s < 50.0, lambda s: s * 2.0, total)
    # One operation with two results.
    ordered = xb.sort([x, xb.neg(x)])
    module = lowering.lower(b.build(xb.tuple(doubled, ordered[1]))).module
    floor = Floor(module)
    made = floor.create()
    assert made.operation.verify()
    assert made.operation.get_asm(enable_debug_info=True) == module.operation.get_asm(
        enable_debug_info=True
    )
    operations: list[Any] = []

    def note(operation: Any) -> ir.WalkResult:
        operations.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    assert floor.count == len(operations) - 1  # the module itself


def test_contenders_take_turns_and_slow_ones_drop_out() -> None:
    turns: list[str] = []

    def refuse() -> dict[str, float]:
        raise ContenderError("no")

    def run(name: str) -> Callable[[], dict[str, float]]:
        return lambda: {name: 1.0}

    found, missing = in_turns(
        {"a": run("a"), "b": run("b"), "c": refuse},
        rounds=3,
        seconds=60,
        before_each=turns.append,
    )
    assert turns == ["a", "b", "c", "b", "a", "a", "b"]
    assert found == {"a": [1.0] * 3, "b": [1.0] * 3}
    assert missing == {"c": "no"}
    # Nothing is left of no time, but each runs once.
    found, _ = in_turns({"a": run("a")}, rounds=3, seconds=0)
    assert found == {"a": [1.0]}


def test_spread() -> None:
    assert spread([4.0, 1.0, 3.0, 2.0, 5.0]) == {
        "median": 3.0,
        "low": 2.0,
        "high": 4.0,
        "least": 1.0,
        "rounds": 5,
    }
    assert set(spread([7.0]).values()) == {7.0, 1}


def test_ratios() -> None:
    times = {"record": 1.0, "lower": 3.0, "jax_trace": 10.0, "jax_lower": 30.0}
    assert ratios_of(times) == {
        "ours/jax": 0.1,
        "record/jax_trace": 0.1,
        "lower/jax_lower": 0.1,
    }
    assert {step.contender for step in STEPS.values()} == CONTENDERS.keys()


def entry_of(ops: int, **us: float) -> dict[str, Any]:
    return {
        "ops": ops,
        "recorded": ops,
        "computations": 2,
        "us": {step: {"median": value} for step, value in us.items()},
        "ratios": ratios_of(us),
        "missing": {},
    }


def test_the_budget_is_computed_from_the_figures() -> None:
    good = entry_of(10_000, record=2.0, lower=3.9, bytecode=1.0, jax_trace=18.0, jax_lower=18.0)
    bad = entry_of(10_000, record=3.1, lower=3.9, bytecode=1.6, jax_trace=18.0, jax_lower=18.0)
    good["us"]["import"], bad["us"]["import"] = {"median": 29.9}, {"median": 30.1}
    small = entry_of(100, record=9.0, lower=9.0, bytecode=9.0)
    large = entry_of(1_000_000, record=4.0, lower=5.0, bytecode=1.0)
    imports = {"builder": {"cpu_ms": {"median": 51.0}, "over": "numpy"}}
    found = held(
        {
            "graphs": {"good": good, "bad": bad, "small": small},
            "scaling": {"chain": [small, good, large]},
            "imports": imports,
        }
    )
    assert [h.met for h in found if h.graph == "good"] == [True] * 5
    assert [h.met for h in found if h.graph == "bad"] == [False, True, False, False, False]
    assert not [h for h in found if h.graph == "small"]
    # Each by itself: neither may hide in the sum.
    assert [(h.promise.partition(" of ")[0], h.figure, h.met) for h in found[-4:-1]] == [
        ("record", "2.00 times", False),
        ("lower", "1.28 times", True),
        ("record + lower", "1.53 times", False),
    ]
    assert {h.graph for h in found[-4:-1]} == {"chain"}
    assert [(h.figure, h.met) for h in found if h.graph == "builder"] == [("51 ms", False)]


def test_a_promise_that_is_not_kept_is_shown_beside_the_figure() -> None:
    kept = entry_of(10_000, record=2.0, lower=3.9, bytecode=1.0)
    broken = entry_of(10_000, record=3.1, lower=3.9, bytecode=1.0)
    (table,) = budget_tables({"graphs": {"kept": kept, "broken": broken}})
    assert table.columns == ["promise", "kept", "broken"]
    assert table.rows[0] == ["record at most 3 us an op", "2.00 us", "3.10 us: **not met**"]
    (single,) = budget_tables({"graphs": {"broken": broken}})
    assert single.rows[0] == ["broken", "record at most 3 us an op", "3.10 us", "NOT met"]


def test_a_narrow_terminal_gets_no_quartiles() -> None:
    table = Table("Times", ["graph", "record"], [["chain", "1.50 (1.40–1.60)"]])
    for width, shown in ((80, True), (15, False)):
        console = Console(width=width)
        with console.capture() as capture:
            show(table, console)
        assert ("(1.40–1.60)" in capture.get()) is shown
        assert "1.50" in capture.get()


def test_the_peer_imports_neither_jax_nor_the_project() -> None:
    """An old Python runs these; `import benchmarks.graphs` there must need NumPy alone."""
    files = [ROOT / "benchmarks" / name for name in ("__init__.py", "peer.py", "timing.py")]
    files += sorted((ROOT / "benchmarks" / "graphs").glob("*.py"))
    files.append(ROOT / "benchmarks" / "languages" / "xla_builder.py")
    imported = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
    foreign = imported - set(sys.stdlib_module_names)
    assert foreign <= {"benchmarks", "numpy", "ml_dtypes", "jaxlib"}


def test_every_contender_has_its_steps() -> None:
    taking_part, consists = contenders(GRAPHS["chain"], 10, None)
    assert consists == {"ops": 11, "recorded": 11, "computations": 1, "operations": 10}
    for name, run in taking_part.items():
        steps = {step for step, s in STEPS.items() if s.contender == name}
        assert set(run()) == steps - {"data"}


def test_ops_count_wherever_they_are_applied() -> None:
    @xb.computation
    def halved(value: xb.XlaOp) -> xb.XlaOp:  # 4 ops: parameter, constant, broadcast, multiply
        return value * 0.5

    @xb.computation
    def calling(value: xb.XlaOp) -> xb.XlaOp:
        return halved(value)

    b = xb.XlaBuilder()
    x, p = b.parameter(xb.f32[3], "x"), b.parameter(xb.pred[()], "p")
    for _ in range(5):
        x = xb.conditional(p, x, halved, x, calling)
    computation = b.build(xb.reduce(x + x, 0.0, xb.add, [0]))
    # Two parameters, five conditionals, an addition, a constant, a reduction; a reducer of three;
    # of each conditional one branch of four, and one of two that calls the first.
    assert counts(computation) == {
        "ops": 10 + 3 + 5 * (4 + (2 + 4)),
        "recorded": 10 + 3 + 4 + 2,
        "computations": 4,
    }


def test_graphs_of_functions_that_are_alike_have_as_many_ops_as_of_others() -> None:
    """What is counted where functions are shared is what is recorded where none can be."""

    def counted(factors: list[float]) -> dict[str, int]:
        def body(g: Any, size: int, x: Any, level: Any, start: Any) -> list[Any]:
            make = control_flow.makers(g)
            for factor in factors:
                x = control_flow.repeated(g, make, int(10 * factor), factor, start, x)
                x = control_flow.chosen(g, make, factor, factor, level, x)
            return [x]

        return counts(ours.record(with_changes(GRAPHS["control_flow"], body=body), len(factors)))

    alike, unlike = counted([1.5] * 6), counted([1.5 + n for n in range(6)])
    assert alike["ops"] == unlike["ops"] == unlike["recorded"] > 2 * alike["recorded"]


def test_data_is_copied_of_the_graph_that_has_them() -> None:
    taking_part, _ = contenders(GRAPHS["constants"], 1, None)
    assert taking_part["floor"]()["data"] > 0
    # 2^19 bytes in one array, half of as many in each of the small kinds but the last, whose arrays
    # have 64 bytes each.
    arrays = large_arrays(ours.record(GRAPHS["constants"], 1))
    assert sum(array.nbytes for array in arrays) == sum(
        array.nbytes for kind in constants.arrays(1) for array in kind if array.nbytes >= 4096
    )


def test_the_code_that_is_read_makes_the_same_module() -> None:
    computation = ours.record(GRAPHS["layers"], 1)
    module = lowering.lower(computation)
    code = code_of(computation)
    assert code.startswith(b"ML\xefR")
    read = ir.Module.parse(code, module.module.context)
    assert str(read) == module.text


def test_recording_without_the_collector_leaves_it_on() -> None:
    assert gc.isenabled()
    taking_part, _ = contenders(GRAPHS["chain"], 10, None, large=True)
    assert taking_part["ours"]()["record_uncollected"] > 0
    assert gc.isenabled()


def test_what_is_out_of_reach_is_computed() -> None:
    us = {
        "record": 2.0,
        "record_uncollected": 1.5,
        "lower": 6.0,
        "bytecode": 2.0,
        "floor_create": 5.0,
        "floor_verify": 2.0,
        "read": 3.0,
        "write": 1.0,
    }
    base = entry_of(10_000, **us)
    largest = entry_of(1_000_000, **us | {"record": 4.0})
    figures = {"graphs": {"g": base}, "scaling": {"g": [base, largest]}}
    tables = dict(out_of_reach.reasons(figures))
    assert tables.keys() == {h.promise for h in held(figures) if not h.met}
    assert tables["lower, verified, at most 4 us an op"].rows == [
        ["g", "create + verify", "6.00", "4.00", "7.00", "0.86×", "more than allowed"],
        ["g", "read the bytecode", "6.00", "4.00", "3.00", "2.00×", "less than allowed"],
    ]
    assert tables["bytecode at most 1.5 us an op"].rows == [
        ["g", "write bytecode", "2.00", "1.50", "1.00", "2.00×", "less than allowed"]
    ]
    (scaled,) = (table.rows for promise, table in tables.items() if "1,000,000" in promise)
    assert scaled == [
        ["g", "record, collector off", "4.00", "3.00", "1.50", "2.67×", "less than allowed"]
    ]
    assert "create + verify for g (6.00 against 7.00). " in (out_of_reach.lowered(figures) or "")
    assert "g 3.00 + 3.00" in (out_of_reach.lowered(figures) or "")
    assert "4.00 us an op for 1,000,000 ops of g, and 1.50 with" in (
        out_of_reach.collected(figures) or ""
    )
    assert out_of_reach.copied(figures) is None
    # The data of constants are copied whoever creates or reads the operations.
    full = entry_of(10_000, **us | {"data": 10.0, "jax_trace": 20.0, "jax_lower": 20.0})
    tables = dict(out_of_reach.reasons({"graphs": {"constants": full}}))
    ((*_, created, _, _), (*_, read, _, _)) = tables[
        "record + lower at least 6 times faster than jax"
    ].rows
    assert (created, read) == ("17.00", "13.00")
    assert "takes 10.00 us an op" in (out_of_reach.copied({"graphs": {"constants": full}}) or "")
