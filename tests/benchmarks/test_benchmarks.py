"""The benchmarks run, at sizes that are too small for meaningful times."""

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
from processes import interpreter
from rich.console import Console
from tables import each_row

import builder as xb
import lowering
from benchmarks import cold, guard, measuring, unmet
from benchmarks.budget import evaluate
from benchmarks.command import main
from benchmarks.contenders import EXPORTS, contenders, counts, large_arrays, lowered_bytecode
from benchmarks.figures import FiguresError, read_entries, read_figures, replace
from benchmarks.floor import Floor
from benchmarks.graphs import GRAPHS, constants, control_flow
from benchmarks.guard import check, losses
from benchmarks.imports import IMPORTS, import_script
from benchmarks.languages import ours
from benchmarks.report import newest_text, report_text, with_later, write_report
from benchmarks.steps import CONTENDERS, STEPS, ratios_of
from benchmarks.tables import PARTS, Table, budget_tables, show
from benchmarks.timing import ContenderError, in_turns, spread

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

# A program that answers as benchmarks.peer does, and crashes after a number of answers.
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
    """Exclude the objects of other tests from the garbage collection before each measurement."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def peer(tmp_path: Path) -> Callable[[int], str]:
    def make(answers: int) -> str:
        file = tmp_path / f"peer_{answers}"
        file.write_text(PEER.format(python=sys.executable, answers=answers))
        file.chmod(0o755)
        return str(file)

    return make


def is_spread(values: dict[str, float], rounds: int) -> bool:
    ordered = [values[key] for key in ("least", "low", "median", "high")]
    return ordered == sorted(ordered) and ordered[0] > 0 and values["rounds"] == rounds


def test_a_graph_and_its_figures(
    tmp_path: Path, peer: Callable[[int], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    arguments = ["chain", "--size", "12", "--rounds", "2", "--json", str(file)]
    assert main([*arguments, "--plots", str(tmp_path / "plots"), "--peer-python", peer(9)]) == 0
    figures = read_figures(file)
    assert figures["versions"].keys() >= {"Python", "jax", "jaxlib", "numpy"}
    assert figures["machine"]["cores"] > 0
    assert figures["peer"] == {"Python": "3.11.9", "jaxlib": "0.6.0"}
    assert (figures["rounds"], figures["quick"]) == (2, False)
    (entry,) = figures["graphs"].values()
    # Two arguments, twelve operations and the tuple of the results. The module has the twelve
    # operations, the function and its return.
    assert (entry["size"], entry["ops"], entry["computations"]) == (12, 15, 1)
    assert entry["operations"] == 14
    assert entry["us"].keys() == STEPS.keys() - {"data"}  # the chain has no large constants
    collector = entry["us"].pop("collector")  # may be 0 for fifteen objects
    assert 0 <= collector["least"] <= collector["median"] <= collector["high"]
    assert all(is_spread(us, 2) for us in entry["us"].values())
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
    arguments = ["scaling", "end_to_end", "imports", "--modules", "--quick"]
    assert main([*arguments, "--size", "10", "--rounds", "1", "--json", str(file)]) == 0
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
    assert "The slowest modules of import builder" in printed
    assert "ms builder." in printed or " builder." in printed

    write_report(figures, tmp_path / "docs")
    page = (tmp_path / "docs" / "performance.md").read_text()
    assert figures["machine"]["processor"] in page
    assert "| builder | import after numpy in at most 0.7 times the import of numpy |" in page
    plot = tmp_path / "docs" / "performance" / "scaling_chain.svg"
    before = plot.read_bytes()
    write_report(figures, tmp_path / "docs")
    assert plot.read_bytes() == before


def test_a_crash_of_the_peer_is_a_row_in_the_table(
    tmp_path: Path, peer: Callable[[int], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    arguments = ["scaling", "--size", "10", "--rounds", "1", "--json", str(file)]
    assert main([*arguments, "--peer-python", peer(0)]) == 0
    (entry,) = read_figures(file)["scaling"]["chain"]
    assert entry["missing"].keys() == {"xla_builder"}
    assert "was killed by SIGABRT" in entry["missing"]["xla_builder"]
    assert "jax_trace" in entry["us"]
    assert "was killed by SIGABRT" in capsys.readouterr().out


@each_row(
    "arguments, message",
    [
        (["chian"], "unknown benchmark 'chian'; choose from chain, "),
        (["check", "graphs"], "unknown benchmark 'graphs'"),
        (["chain", "--rounds", "0"], "invalid positive number value: '0'"),
        (["chain", "--peer-python", "/nowhere/python"], "--peer-python: /nowhere/python can't be"),
        (["chain", "--peer-python", "/bin/true"], "--peer-python: /bin/true exited with status 0"),
        (["chain", "--peer-python", "/bin/echo"], "--peer-python: /bin/echo did not answer"),
        (["chain", "--peer-python", sys.executable], "has no XlaBuilder"),
        (["chain", "--json", "/nowhere/figures.json"], "--json: folder /nowhere does not exist"),
        (["chain", "--json", "/"], "--json: / is a folder"),
        (["chain", "--plots", "/dev/null/plots"], "--plots: /dev/null/plots can't be created"),
        (
            ["check", "--update", "chain", "--file", "/nowhere/ratios.json"],
            "folder /nowhere does not exist",
        ),
        (["report", "/nowhere/figures.json"], "/nowhere/figures.json can't be read"),
        (["check", "--file", "/nowhere/ratios.json"], "/nowhere/ratios.json can't be read"),
    ],
)
def test_errors_are_reported_on_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(arguments)
    except SystemExit as exit:
        status = exit.code
    assert status == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]


def test_import_lowering_is_measured_after_jax() -> None:
    assert IMPORTS["lowering"] == "jax"
    done = subprocess.run(
        [sys.executable, "-c", import_script("lowering", "jax")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = [float(text) for text in done.stdout.split()]
    assert len(seconds) == 4
    assert min(seconds) > 0


def test_files_without_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    entry = {"date": "", "sizes": {}, "ratios": {"chain": {"a/b": "1"}}}
    for arguments, text, message in (
        (["report"], "{", "is not valid JSON"),
        (["report"], "[]", "does not contain figures of a run"),
        (["report"], '{"format": 1}', "date is missing"),
        (["check", "--file"], '{"format": 1}', "does not contain ratios: entries is missing"),
        (
            ["check", "--file"],
            json.dumps({"format": 1, "entries": {"any": entry}}),
            "entries.any.ratios.chain.a/b is '1'",
        ),
    ):
        file.write_text(text)
        assert main([*arguments, str(file)]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert message in lines[0]


def test_invalid_figures_change_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs = tmp_path / "docs"
    source = ROOT / "docs" / "performance" / "figures.json"
    assert main(["report", str(source), "--docs", str(docs)]) == 0
    before = {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()}
    assert before.keys() >= {docs / "performance.md", docs / "performance" / "figures.json"}
    broken = tmp_path / "figures.json"
    for keys, missing in (
        (("graphs", "chain", "us", "jax_trace", "median"), "graphs.chain.us.jax_trace.median"),
        (("scaling", "chain", 0, "ops"), "scaling.chain[0].ops"),
        (("machine",), "machine"),
    ):
        figures = innermost = json.loads(source.read_text())
        for key in keys[:-1]:
            innermost = innermost[key]
        del innermost[keys[-1]]
        broken.write_text(json.dumps(figures))
        assert main(["report", str(broken), "--docs", str(docs)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith(f"does not contain figures of a run: {missing} is missing")
    assert main(["report", str(guard.RATIOS_FILE), "--docs", str(docs)]) == 2
    assert "does not contain figures of a run" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()} == before


def test_a_file_is_replaced_atomically(tmp_path: Path) -> None:
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
    arguments = ["packing", "--size", "1000000", "--rounds", "1"]
    assert main([*arguments, "--json", str(file)]) == 0
    figures = read_figures(file)
    entries = {entry["shape"]: entry for entry in figures["packing"]}
    entry = entries["f32[1000,1000]{1,0:T(8,128)}"]
    assert entry["elements"] == 1_000_000
    assert entry["ms"].keys() == {"pack", "unpack", "copy", "fresh"}
    assert all(is_spread(ms, 1) for ms in entry["ms"].values())
    packed, copied = (entry["ms"][name]["median"] for name in ("pack", "copy"))
    assert entry["ratios"]["pack/copy"] == pytest.approx(packed / copied, rel=1e-2)
    printed = capsys.readouterr().out
    assert "f32[1000,1000]{0,1}" in printed
    assert "times a copy into new memory" not in printed  # applies to arrays that exceed the caches

    entry["elements"] = 100_000_000
    for ratio, verdict in ((1.06, "1.06 times | met |"), (1.2, "1.20 times | NOT met |")):
        entry["ratios"]["pack/fresh"] = ratio
        page = report_text(figures)
        assert "## Packing arrays" in page
        assert f"| packed in at most 1.1 times a copy into new memory | {verdict}" in page


def test_interop(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    assert main(["interop", "--size", "1", "--rounds", "2", "--json", str(file)]) == 0
    figures = read_figures(file)
    assert [entry["what"].split()[0] for entry in figures["interop"]] == [
        "trace",
        "execute",
        "execute",
    ]
    for entry in figures["interop"]:
        assert all(is_spread(entry["ms"][who], 2) for who in ("ours", "reference"))
    assert "## Inside jax, and gradients" in report_text(figures)
    later = {**figures, "date": "2030-01-02", "interop": [{**figures["interop"][0], "what": "new"}]}
    page = report_text(with_later(figures, later))
    assert "| new |" in page
    stated = page.count("Measured in another run, on 2030-01-02, on ")
    assert stated == sum(part in later for part in PARTS)


def test_cold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold, "fresh_interpreter", interpreter)
    file = tmp_path / "figures.json"
    arguments = ["cold", "--quick", "--size", "4", "--rounds", "2", "--json", str(file)]
    assert main(arguments) == 0
    figures = read_figures(file)
    (entry,) = figures["cold"]
    assert (entry["graph"], entry["size"]) == ("chain", 4)
    assert entry["ops"] == counts(ours.record(GRAPHS["chain"], 4))["ops"]
    for side in ("ours", "jax"):
        assert all(is_spread(ms, 2) for ms in entry["ms"][side].values())
        parts = [entry["ms"][side][stage]["least"] for stage in ("import", "record", "lower")]
        assert entry["ms"][side]["total"]["least"] >= 0.999 * sum(parts)
    totals = [entry["ms"][side]["total"]["median"] for side in ("ours", "jax")]
    assert entry["ratios"]["total, ours/jax"] == pytest.approx(totals[0] / totals[1], rel=1e-2)
    assert "The first build in a fresh process" in capsys.readouterr().out
    page = report_text(figures)
    assert "## The first build in a fresh process" in page
    assert "| chain | " in page


def test_dispatch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    arguments = ["dispatch", "--size", "2", "--rounds", "1", "--quick"]
    assert main([*arguments, "--json", str(file)]) == 0
    figures = read_figures(file)
    entries = {entry["kind"]: entry for entry in figures["dispatch"]}
    entry = entries["device"]
    assert (entry["arguments"], entry["results"]) == (2, 2)
    for kind in ("device", "NumPy", "NumPy, aligned", "NumPy, 64 MiB"):
        assert entries[kind]["us"].keys() == {"ours", "lowering.jit", "jax"}
    assert all(is_spread(us, 1) for us in entry["us"].values())
    ours, theirs = (entry["us"][name]["median"] for name in ("ours", "jax"))
    assert entry["ratios"]["ours/jax"] == pytest.approx(ours / theirs, rel=1e-2)
    assert "2 in, 2 out" in capsys.readouterr().out

    entry["us"]["jax"] |= {"low": 10.0, "median": 11.0, "high": 12.0}
    for low, verdict in ((11.5, "met"), (12.5, "NOT met")):
        entry["us"]["ours"] |= {"low": low, "median": 13.0}
        page = report_text(figures)
        assert "## Calls" in page
        row = next(line for line in page.splitlines() if "no longer than jax.jit's" in line)
        assert row.endswith(f"| {verdict} |")


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
        "library",
        "operands",
        "interop",
        "derivatives",
        "serving",
        "tools",
        "scale",
        "--peer-python",
    ):
        assert name in done.stdout


COUNT_PAGES = """\
import resource, sys
from benchmarks.timing import keep_freed_memory
def pages(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
kept = sys.argv[1] == "keep" and keep_freed_memory()
counts = [pages()]
for _ in range(2):
    b"x" * (int(sys.argv[2]) << 20)
    counts.append(pages())
print(kept, counts[1] - counts[0], counts[2] - counts[1])
"""


@each_row(
    "arguments, expected",
    [
        (["chain", "packing", "--size", "40"], ["packing", "memory", "graph"]),
        (["packing", "--size", "40"], ["packing", "memory"]),
        (["check", "chain"], ["memory", "check"]),
    ],
)
def test_packing_is_measured_before_freed_memory_is_kept(
    arguments: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packing is measured with the default settings of malloc."""
    order: list[str] = []

    def log(name: str) -> Callable[..., Any]:
        return lambda *_, **__: order.append(name) or {}

    monkeypatch.setattr("benchmarks.packing.measure_packing", log("packing"))
    monkeypatch.setattr("benchmarks.measuring.measure_graph", log("graph"))
    monkeypatch.setattr("benchmarks.guard.check", log("check"))
    monkeypatch.setattr("benchmarks.command._print", lambda figures: None)
    main(arguments, before_graphs=lambda: order.append("memory"))
    assert order == expected


def test_freed_memory_is_kept() -> None:
    """Filling memory again causes no page faults."""

    def fill(*arguments: str) -> list[str]:
        command = [sys.executable, "-c", COUNT_PAGES, *arguments]
        return subprocess.check_output(command, cwd=ROOT, text=True).split()

    is_glibc = platform.libc_ver()[0] == "glibc"
    kept, first, again = fill("keep", "64")
    assert kept == str(is_glibc)
    if is_glibc:
        assert int(again) < int(first) / 10
        _, first, again = fill("default", "64")
        assert int(again) > int(first) / 2


def test_the_page_matches_its_figures() -> None:
    figures = read_figures(ROOT / "docs" / "performance" / "figures.json")
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page == report_text(figures), "python -m benchmarks report docs/performance/figures.json"
    newest = read_figures(ROOT / "docs" / "performance" / "newest.json")
    page = (ROOT / "docs" / "performance_newest.md").read_text(encoding="utf-8")
    assert page == newest_text(newest), "python -m benchmarks report --newest"
    assert newest["versions"]["jax"] > figures["versions"]["jax"]
    assert "\n148 functions were measured" in page


# The guard


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("ratios") / "ratios.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "ROUNDS", 1)
        assert main(["check", "--update", "chain", "--size", "10", "--file", str(file)]) == 0
    return file.read_text()


@pytest.fixture
def ratios(tmp_path: Path, written: str) -> Path:
    file = tmp_path / "ratios.json"
    file.write_text(written)
    return file


def read_ratios(file: Path) -> dict[str, float]:
    (entry,) = json.loads(file.read_text())["entries"].values()
    ratios_of_chain: dict[str, float] = entry["ratios"]["chain"]
    return ratios_of_chain


def test_ratios_of_an_update_are_compared(
    ratios: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "ROUNDS", 1)
    content = json.loads(ratios.read_text())
    committed = read_ratios(ratios)
    assert committed.keys() >= {"ours/jax", "lower/floor", "bytecode/floor"}
    for factor, status in ((100, 0), (0.01, 1)):
        changed = copy.deepcopy(content)
        (entry,) = changed["entries"].values()
        entry["ratios"]["chain"] = {name: value * factor for name, value in committed.items()}
        ratios.write_text(json.dumps(changed))
        assert main(["check", "--file", str(ratios)]) == status
    # Noise is smaller than a factor of 100.
    printed = capsys.readouterr().out
    assert "No ratio is more than 30% worse than in ratios.json" in printed
    assert "Slower than before" in printed


def test_a_loss_of_31_percent_fails_and_one_of_29_does_not(ratios: Path) -> None:
    committed = read_ratios(ratios)
    for loss, status in ((1.31, 1), (1.29, 0), (0.5, 0)):
        measured: list[str] = []

        def measure(
            name: str, size: int, loss: float = loss, measured: list[str] = measured
        ) -> Any:
            measured.append(name)
            assert size == 10
            return committed | {"lower/floor": committed["lower/floor"] * loss}

        console = Console(record=True, width=100, file=Path(os.devnull).open("w"))  # noqa: SIM115
        assert check(ratios, console, lambda _: None, measure=measure) == status
        console.file.close()
        # An apparent loss is measured again.
        assert len(measured) == (3 if status else 1)
        assert ("+31%" in console.export_text()) == bool(status)


def test_a_loss_that_is_not_repeated_passes(ratios: Path) -> None:
    committed = read_ratios(ratios)
    factors = iter((2.0, 1.1))

    def measure(name: str, size: int) -> dict[str, float]:
        factor = next(factors)
        return {ratio: value * factor for ratio, value in committed.items()}

    assert check(ratios, Console(quiet=True), lambda _: None, measure=measure) == 0


def test_a_committed_ratio_must_be_measured(
    ratios: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = {"a/b": 1.5, "c/d": 1.0, "e/f": 9.0}
    assert losses("g", {"a/b": 1.0, "c/d": 1.0}, measured) == [["a/b", "1.000", "1.500", "+50%"]]
    del measured["c/d"]
    with pytest.raises(FiguresError, match="g: committed ratios were not measured: c/d"):
        losses("g", {"a/b": 1.0, "c/d": 1.0}, measured)

    committed = read_ratios(ratios)
    # The contender jax does not run.
    monkeypatch.setattr(
        guard,
        "measure_ratios",
        lambda name, size: {ratio: v for ratio, v in committed.items() if "jax" not in ratio},
    )
    assert main(["check", "--file", str(ratios)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "chain: committed ratios were not measured: ours/jax" in line


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
    quiet, committed = Console(quiet=True), read_ratios(ratios)

    def measure(name: str, size: int) -> Any:
        return committed

    assert check(ratios, quiet, str, names=["chain"], size=10, measure=measure) == 0


def test_an_update_of_one_graph_leaves_the_others(ratios: Path) -> None:
    committed = read_ratios(ratios)
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
    # The least of three measurements.
    assert entry["ratios"] == {"chain": committed, "lstm": {"ours/jax": 2.0}}
    assert entry["sizes"] == {"chain": 10, "lstm": 7}


def test_every_graph_is_guarded() -> None:
    for entry in read_entries(guard.RATIOS_FILE).values():
        assert entry["ratios"].keys() == entry["sizes"].keys() == set(guard.GUARDED)
        for name in GRAPHS:
            required = {"ours/jax", "lower/jax_lower", "lower/floor", "bytecode/floor"}
            assert entry["ratios"][name].keys() >= required | {"import/floor"}
        assert entry["ratios"]["cold"].keys() == {"total, ours/jax"}
        assert entry["ratios"]["imports"].keys() == {"builder/numpy", "lowering/jax"}
        assert "NumPy arguments, ours/jax" in entry["ratios"]["calls"]
        assert len(entry["ratios"]["processes"]) == 2


def test_artifact_and_text_are_guarded_for_some_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "ROUNDS", 1)
    for name in guard.WITH_TEXT:
        measured = guard.measure_ratios(name, GRAPHS[name].sizes[0])
        assert measured.keys() >= {"artifact/floor", "hlo_text/floor"}


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
    check(
        ratios,
        Console(quiet=True),
        str,
        names=["chain"],
        update=True,
        measure=lambda *_: {"ours/jax": 0.1},
    )
    assert len(json.loads(ratios.read_text())["entries"]) == 2


# Measurements


def test_the_floor_builds_the_same_module() -> None:
    b = xb.XlaBuilder("loop")
    x = b.parameter(xb.f32[3], "x")
    total = xb.reduce(x, 0.0, xb.add, [0])
    doubled = xb.while_(lambda s: s < 50.0, lambda s: s * 2.0, total)
    # An operation with two results.
    ordered = xb.sort([x, xb.neg(x)])
    module = lowering.lower(b.build(xb.tuple(doubled, ordered[1]))).module
    floor = Floor(module)
    rebuilt = floor.create()
    assert rebuilt.operation.verify()
    assert rebuilt.operation.get_asm(enable_debug_info=True) == module.operation.get_asm(
        enable_debug_info=True
    )
    operations: list[Any] = []

    def append(operation: Any) -> ir.WalkResult:
        operations.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(append)
    assert floor.count == len(operations) - 1  # without the module itself


def test_contenders_take_turns_and_slow_ones_are_left_out() -> None:
    turns: list[str] = []

    def refuse() -> dict[str, float]:
        raise ContenderError("no")

    def run(name: str) -> Callable[[], dict[str, float]]:
        return lambda: {name: 1.0}

    times, missing = in_turns(
        {"a": run("a"), "b": run("b"), "c": refuse},
        rounds=3,
        seconds=60,
        before_each=turns.append,
    )
    assert turns == ["a", "b", "c", "b", "a", "a", "b"]
    assert times == {"a": [1.0] * 3, "b": [1.0] * 3}
    assert missing == {"c": "no"}
    # Each runs at least once.
    times, _ = in_turns({"a": run("a")}, rounds=3, seconds=0)
    assert times == {"a": [1.0]}


def test_every_second_process_begins_in_reverse_order() -> None:
    turns: list[str] = []
    both: dict[str, Callable[[], dict[str, float]]] = {"a": dict, "b": dict}
    in_turns(both, rounds=2, seconds=60, before_each=turns.append, reverse=True)
    assert turns == ["b", "a", "a", "b"]


def test_rounds_are_divided_among_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []

    def measure(*arguments: object) -> dict[str, Any]:
        calls.append(arguments)
        number = len(calls)
        missing = {"xla_builder": f"crash {number}"} if number == 1 else {}
        sizes = {"ops": 4, "recorded": 4, "computations": 1, "operations": 3}
        times = {"record": [4e-6 * number] * arguments[2]}  # type: ignore[operator]  # it is an int
        return {"counts": sizes, "seconds": times, "missing": missing}

    monkeypatch.setattr(measuring, "_in_a_process", measure)
    for rounds, expected in ((7, [3, 2, 2]), (2, [1, 1])):
        calls.clear()
        effort = measuring.Effort(processes=3, rounds=rounds, seconds=2.0)
        entry = measuring.measure_graph(GRAPHS["chain"], 4, effort, "python", str, large=True)
        assert calls == [
            ("chain", 4, n, 2.0, number, "large", "python") for number, n in enumerate(expected)
        ]
        # The measurements of all processes count together.
        assert (entry["us"]["record"]["rounds"], entry["us"]["record"]["least"]) == (rounds, 1.0)
        assert entry["us"]["record"]["high"] > 1.0
        assert entry["missing"] == {"xla_builder": "crash 1"}


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


def test_the_budget_is_evaluated_from_the_figures() -> None:
    others = {"lower": 3.9, "jax_trace": 18.0, "jax_lower": 18.0}
    floor = {"floor_create": 2.0, "floor_verify": 1.0}
    good = entry_of(10_000, record=2.0, bytecode=1.0, **others, **floor, **{"import": 20.9})
    bad = entry_of(10_000, record=3.1, bytecode=1.6, **others, **floor, **{"import": 21.1})
    small = entry_of(100, record=9.0, lower=9.0, bytecode=9.0)
    large = entry_of(
        1_000_000, record=4.0, lower=5.0, bytecode=1.0, objects=3.0, jax_trace=9, jax_lower=36
    )
    imports = {
        "builder": {"cpu_ms": {"median": 60.0}, "over": "numpy", "over_ms": {"median": 50.0}}
    }
    results = evaluate(
        {
            "graphs": {"good": good, "bad": bad, "small": small},
            "scaling": {"chain": [small, good, large]},
            "imports": imports,
        }
    )
    assert [r.met for r in results if r.graph == "good"] == [True] * 7
    bad_results = [r.met for r in results if r.graph == "bad"]
    assert bad_results == [False, True, False, True, True, False, False]
    assert not [r for r in results if r.graph == "small"]
    # Recording and lowering have targets of their own, besides that of the sum.
    assert [(r.target[:14], r.figure, r.met) for r in results[-4:-1]] == [
        ("record 1,000,0", "1.33 times", False),
        ("lower per op a", "1.28 times", True),
        ("1,000,000 ops:", "5.0 times", False),
    ]
    assert {r.graph for r in results[-4:-1]} == {"chain"}
    stages = {side: {"total": {"median": ms}} for side, ms in (("ours", 110), ("jax", 209))}
    (cold,) = evaluate({"cold": [{"graph": "chain", "ops": 7, "ms": stages}]})
    assert (cold.graph, cold.figure, cold.met) == ("chain, 7 ops, cold", "1.9 times", False)
    assert [(r.figure, r.met) for r in results if r.graph == "builder"] == [("1.20 times", False)]


def test_a_fast_jax_leaves_the_target_of_the_shared_part() -> None:
    """It is the least time of any recorder: objects, MLIR's copy of constants, MLIR's reading."""
    us = {"record": 3.0, "jax_trace": 15.0, "jax_lower": 15.0, "objects": 1.0, "data": 0.5}
    for lower, read, figure, met in (
        (2.0, 9.0, "6 times", True),  # the target relative to jax
        (3.0, 1.5, "5 times (2.00 times the shared part)", True),
        (3.1, 1.5, "4.918 times (2.03 times the shared part)", False),
    ):
        entry = entry_of(10_000, **us, lower=lower, read=read)
        results = evaluate({"graphs": {"g": entry}})
        (result,) = (r for r in results if r.key == "ours/jax")
        assert (result.figure, result.met) == (figure, met)
    assert result.limit == 6.0  # in microseconds


def test_the_targets_of_calls() -> None:
    """Those of NumPy arguments are limits; `lowering.jit` is compared with the executable."""
    both = {"arguments": 2, "results": 1}
    us = {name: {"median": 10.0, "low": 9.0, "high": 11.0} for name in ("ours", "jax")}
    entries = [
        {**both, "kind": "device", "us": us, "ratios": {"ours/jax": 1.0}},
        {**both, "kind": "NumPy", "ratios": {"ours/jax": 1.25, "lowering.jit/jax": 1.45}},
        {**both, "kind": "NumPy", "ratios": {"ours/jax": 1.35, "lowering.jit/jax": 1.4}},
        {**both, "kind": "NumPy, aligned", "ratios": {"ours/jax": 1.35, "lowering.jit/jax": 1.4}},
        {**both, "kind": "NumPy, 64 MiB", "us": us, "ratios": {"ours/jax": 1.1}},
        {**both, "kind": "rows on 8 devices", "ratios": {"ours/jax": 2.0}},
    ]
    assert [(r.figure, r.met) for r in evaluate({"graphs": {}, "dispatch": entries})] == [
        ("1.00 times", True),
        ("1.25 times", True),
        ("1.16 times", False),
        ("1.35 times", False),
        ("1.04 times", True),
        ("1.35 times", True),
        ("1.04 times", True),
        ("1.10 times", True),
    ]


def test_the_target_of_computed_operands() -> None:
    """It is 2 times, or about 1.5 times jax's time; the function farthest from it is listed."""

    def entries(**ms: tuple[float, float, float]) -> list[dict[str, Any]]:
        names = "ours", "ours, computed", "jax, computed"
        return [
            {
                "function": name,
                "ms": {
                    who: {"median": t, "low": 0.9 * t, "high": 1.1 * t}
                    for who, t in zip(names, times, strict=True)
                },
            }
            for name, times in ms.items()
        ]

    (good,) = evaluate({"operands": entries(a=(1.0, 1.9, 1.0), b=(0.5, 140.0, 100.0))})
    given = entries(a=(1.0, 2.1, 1.3), b=(0.5, 100.0, 100.0))
    (bad,) = evaluate({"operands": given})
    assert (good.graph, good.figure, good.met) == (
        "2 functions of builder.lib",
        "1.90 times (a)",
        True,
    )
    assert (bad.figure, bad.met) == ("2.10 times (a)", False)
    # The quartiles overlap: the times of one program depend on its threads.
    given[0]["ms"]["ours, computed"]["low"] = given[0]["ms"]["jax, computed"]["high"]
    (overlapping,) = evaluate({"operands": given})
    assert (overlapping.figure, overlapping.met) == ("2.10 times (a)", True)


def test_an_unmet_target_is_marked() -> None:
    good = entry_of(10_000, record=2.0, lower=3.9, bytecode=1.0)
    bad = entry_of(10_000, record=3.1, lower=3.9, bytecode=1.0)
    (table,) = budget_tables({"graphs": {"good": good, "bad": bad}})
    assert table.columns == ["target", "good", "bad"]
    assert table.rows[0] == ["record at most 3 us per op", "2.00 us", "3.10 us: **not met**"]
    (single,) = budget_tables({"graphs": {"bad": bad}})
    assert single.rows[0] == ["bad", "record at most 3 us per op", "3.10 us", "NOT met"]


def test_a_narrow_terminal_shows_no_quartiles() -> None:
    table = Table("Times", ["graph", "record"], [["chain", "1.50 (1.40–1.60)"]])
    for width, shown in ((80, True), (15, False)):
        console = Console(width=width)
        with console.capture() as capture:
            show(table, console)
        assert ("(1.40–1.60)" in capture.get()) is shown
        assert "1.50" in capture.get()


def test_the_peer_imports_neither_jax_nor_the_project() -> None:
    """These modules run on an old Python, which has only NumPy, ml_dtypes and jaxlib."""
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
    rounds, sizes = contenders(GRAPHS["chain"], 10, None)
    assert sizes == {"ops": 11, "recorded": 11, "computations": 1, "operations": 10}
    measured = {name: set(run()) for name, run in rounds.items()}
    measured["ours"] |= measured.pop(EXPORTS)
    for name, found in measured.items():
        steps = {step for step, s in STEPS.items() if s.contender == name}
        assert found == steps - {"data"}


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
    # for each conditional a branch of four, and one of two that calls the first.
    assert counts(computation) == {
        "ops": 10 + 3 + 5 * (4 + (2 + 4)),
        "recorded": 10 + 3 + 4 + 2,
        "computations": 4,
    }


def test_sharing_functions_does_not_change_the_number_of_ops() -> None:
    """The ops counted with shared functions are those recorded when no function is shared."""

    def counts_of(factors: list[float]) -> dict[str, int]:
        def body(g: Any, size: int, x: Any, level: Any, start: Any) -> list[Any]:
            make = control_flow.makers(g)
            for factor in factors:
                x = control_flow.repeated(g, make, int(10 * factor), factor, start, x)
                x = control_flow.chosen(g, make, factor, factor, level, x)
            return [x]

        return counts(ours.record(with_changes(GRAPHS["control_flow"], body=body), len(factors)))

    equal, distinct = counts_of([1.5] * 6), counts_of([1.5 + n for n in range(6)])
    assert equal["ops"] == distinct["ops"] == distinct["recorded"] > 2 * equal["recorded"]


def test_the_data_of_constants_is_copied() -> None:
    rounds, _ = contenders(GRAPHS["constants"], 1, None)
    assert rounds["floor"]()["data"] > 0
    # All kinds but the last, whose arrays have 64 bytes each.
    arrays = large_arrays(ours.record(GRAPHS["constants"], 1))
    assert sum(array.nbytes for array in arrays) == sum(
        array.nbytes for kind in constants.arrays(1) for array in kind if array.nbytes >= 4096
    )


def test_the_bytecode_that_is_read_gives_the_same_module() -> None:
    computation = ours.record(GRAPHS["layers"], 1)
    module = lowering.lower(computation)
    bytecode = lowered_bytecode(computation)
    assert bytecode.startswith(b"ML\xefR")
    read = ir.Module.parse(bytecode, module.module.context)
    assert str(read) == module.text


def test_recording_without_the_collector_enables_it_again() -> None:
    assert gc.isenabled()
    rounds, _ = contenders(GRAPHS["chain"], 10, None, large=True)
    assert rounds["ours"]()["record_uncollected"] > 0
    assert gc.isenabled()


def test_unmet_targets_are_compared_with_references() -> None:
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
    largest = entry_of(1_000_000, **us | {"record": 4.0, "objects": 2.0})
    figures = {"graphs": {"g": base}, "scaling": {"g": [base, largest]}}
    tables = {table.title: table for table in unmet.comparisons(figures)}
    assert tables.keys() == {r.target for r in evaluate(figures) if not r.met}
    assert tables["lower, verified, at most 4 us per op"].rows == [
        ["g", "create + verify", "6.00", "4.00", "7.00", "0.86×", "above the limit"],
        ["g", "read the bytecode", "6.00", "4.00", "3.00", "2.00×", "below the limit"],
    ]
    assert tables["bytecode at most 1.5 us per op"].rows == [
        ["g", "write bytecode", "2.00", "1.50", "1.00", "2.00×", "below the limit"]
    ]
    (scaled,) = (table.rows for target, table in tables.items() if "1,000,000" in target)
    assert scaled == [
        ["g", "record, collector off", "4.00", "2.40", "1.50", "2.67×", "below the limit"],
        ["g", "make as many objects", "4.00", "2.40", "2.00", "2.00×", "below the limit"],
    ]
    assert unmet.lowering_table(figures).rows == [["g", "6.00", "3.00", "3.00", "7.00"]]
    assert unmet.collector_table(figures).rows == [
        ["g", "10,000", "2.00", "1.50", "—"],
        ["g", "1,000,000", "4.00", "1.50", "2.00"],
    ]
    assert unmet.shared_table(figures).rows == []
    jax = {"jax_trace": 20.0, "jax_lower": 16.0}
    whole = entry_of(10_000, **us | jax | {"objects": 1.0, "data": 0.5})
    assert unmet.shared_table({"graphs": {"g": whole}}).rows == [
        ["g", "8.00", "4.50", "1.8×", "36.00", "8.0×", "6.00", "1.50", "3.50"]
    ]
    assert unmet.constants_note(figures) is None
    # Creating and reading operations both copy the data of constants.
    full = entry_of(10_000, **us | {"data": 10.0, "jax_trace": 12.0, "jax_lower": 12.0})
    tables = {t.title: t for t in unmet.comparisons({"graphs": {"constants": full}})}
    ((*_, create, _, _), (*_, read, _, _)) = tables[
        "record + lower at least 4.5 times faster than jax (or at most 2 times the shared part)"
    ].rows
    assert (create, read) == ("17.00", "13.00")
    assert "takes 10.00 us per op" in (unmet.constants_note({"graphs": {"constants": full}}) or "")
