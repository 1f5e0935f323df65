"""Detect slowdowns of xlabuilder relative to other contenders: `make bench-check`.

Only ratios are compared, of times that are measured together. The divisors are times of jax's trace
and lowering, or of MLIR alone, so the speed and the load of the machine change a ratio little. Each
time is the least of several rounds, since noise only adds to it. A graph that seems slower is
measured twice more before it counts. The committed ratios are the least of as many measurements. A
committed ratio that was not measured is a failure. Ratios are stored for each version of Python and
jax, on which they depend.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from benchmarks.cold import COLD, GUARDED_SIZE, cold_ratios
from benchmarks.contenders import contenders
from benchmarks.dispatch import call_ratios
from benchmarks.figures import FORMAT, FiguresError, check_writable, read_entries, replace
from benchmarks.graphs import GRAPHS
from benchmarks.imports import import_ratios
from benchmarks.machine import today, versions
from benchmarks.steps import ratios_of
from benchmarks.tables import Table, show
from benchmarks.timing import in_turns
from benchmarks.tools import process_ratios

__all__ = ["ALLOWED_LOSS", "GUARDED", "RATIOS_FILE", "check", "losses"]

RATIOS_FILE: Final = Path(__file__).with_name("ratios.json")
ALLOWED_LOSS: Final = 0.30
"""How much larger a ratio may be than the committed one."""

ROUNDS: Final = 5
TRIES: Final = 3
_SECONDS: Final = 4.0

_WITHOUT_GRAPH: Final[dict[str, Callable[[int], dict[str, float]]]] = {
    COLD: lambda size: cold_ratios(size, ROUNDS),
    "imports": lambda _: import_ratios(ROUNDS),
    "calls": lambda _: call_ratios(ROUNDS, _SECONDS),
    "processes": lambda _: process_ratios(ROUNDS, float("inf")),
}
"""The ratios of no graph, as functions of a size: the first build in a fresh process, the imports,
calls with two arrays, and processes that export and inspect a file."""

GUARDED: Final = (*GRAPHS, *_WITHOUT_GRAPH)
"""The benchmarks with ratios."""


def check(
    file: Path,
    console: Console,
    on_progress: Callable[[str], None],
    *,
    names: Sequence[str] = (),
    size: int | None = None,
    update: bool = False,
    measure: Callable[[str, int], dict[str, float]] | None = None,
) -> int:
    """Measure ratios, compare them with those of a file and print the ones that are worse.

    Args:
        file: the committed ratios.
        console: where to print.
        on_progress: called with a description of each measurement.
        names: those of `GUARDED`; by default all in the file, or with `update` all that exist.
        size: the size of every graph. Without `update` it must be the size in the file.
        update: whether to write the measured ratios to the file instead of comparing them.
        measure: returns the ratios of a graph at a size.

    Returns:
        The exit status: 1 if a ratio is worse.

    Raises:
        FiguresError: the file can't be read, or has no ratios for these versions, a graph named or
            this size; or a ratio in the file was not measured.
    """
    measure = measure or measure_ratios
    if update:
        _update(file, on_progress, names or GUARDED, size, measure)
        return 0
    committed = _read(file)
    names = list(names or committed["ratios"])
    sizes = _sizes(file, committed, names, size)
    worse: list[list[str]] = []
    for name in names:
        ratios = committed["ratios"][name]
        best: dict[str, float] = {}
        for attempt in range(TRIES):
            on_progress(f"{name} {sizes[name]:,}" + (", again" if attempt else ""))
            _take_least(best, measure(name, sizes[name]))
            if not losses(name, ratios, best):
                break
        worse += [[name, *row] for row in losses(name, ratios, best)]
    if not worse:
        console.print(
            f"No ratio is more than {ALLOWED_LOSS:.0%} worse than in {file.name}: "
            f"{', '.join(names)}.",
            highlight=False,
        )
        return 0
    show(Table("Slower than before", ["graph", "ratio", "was", "is", "loss"], worse, 2), console)
    return 1


def _sizes(
    file: Path, committed: Mapping[str, Any], names: Sequence[str], size: int | None
) -> dict[str, int]:
    """Return the sizes of the graphs in the file, which must have ratios of all of them."""
    missing = [name for name in names if not committed["ratios"].get(name)]
    if missing or not names:
        raise FiguresError(
            f"{file} has no ratios of {', '.join(missing) or 'any graph'} for {_versions()}; "
            f"{_update_hint(file, missing)}"
        )
    sizes: dict[str, int] = {name: committed["sizes"][name] for name in names}
    other = [f"{name} {sizes[name]}" for name in names if size not in (None, sizes[name])]
    if other:
        raise FiguresError(
            f"--size {size}: {file} has ratios of another size ({', '.join(other)}), which can't "
            f"be compared; {_update_hint(file, names, size)}"
        )
    return sizes


def _update_hint(file: Path, names: Sequence[str] = (), size: int | None = None) -> str:
    """Return the command that writes missing ratios."""
    command = ["python -m benchmarks check --update", *names]
    command += [] if size is None else [f"--size {size}"]
    command += [] if file == RATIOS_FILE else [f"--file {file}"]
    return f"fix: run {' '.join(command)} with the same Python"


def _update(
    file: Path,
    on_progress: Callable[[str], None],
    names: Sequence[str],
    size: int | None,
    measure: Callable[[str, int], dict[str, float]],
) -> None:
    """Write the least of each ratio in as many measurements as a comparison makes at most."""
    entries = read_entries(file) if file.exists() else {}
    check_writable(file)
    entry = entries.setdefault(_versions(), {"date": today(), "sizes": {}, "ratios": {}})
    entry["date"] = today()
    for name in names:
        graph_size = size or _default_size(name)
        least: dict[str, float] = {}
        for _ in range(TRIES):
            on_progress(f"{name} {graph_size:,}")
            _take_least(least, measure(name, graph_size))
        if not least:
            raise FiguresError(f"{name}: no ratio was measured")
        entry["sizes"][name] = graph_size
        entry["ratios"][name] = {ratio: round(value, 4) for ratio, value in least.items()}
    replace(file, json.dumps({"format": FORMAT, "entries": entries}, indent=1) + "\n")


def _take_least(best: dict[str, float], measured: Mapping[str, float]) -> None:
    for ratio, value in measured.items():
        best[ratio] = min(value, best.get(ratio, value))


def losses(
    name: str, committed: Mapping[str, float], measured: Mapping[str, float]
) -> list[list[str]]:
    """Return the ratios of a graph that are worse: name, committed value, value, increase.

    Raises:
        FiguresError: a committed ratio was not measured.
    """
    missing = [ratio for ratio in committed if ratio not in measured]
    if missing:
        raise FiguresError(f"{name}: committed ratios were not measured: {', '.join(missing)}")
    return [
        [ratio, f"{was:.3f}", f"{measured[ratio]:.3f}", f"{measured[ratio] / was - 1:+.0%}"]
        for ratio, was in committed.items()
        if measured[ratio] > was * (1 + ALLOWED_LOSS)
    ]


WITH_TEXT: Final = frozenset({"chain", "lstm"})
"""Graphs whose artifact and HLO text are measured too. For all graphs it would take minutes."""


def measure_ratios(name: str, size: int) -> dict[str, float]:
    """Return the ratios of a graph, from the least time of each step in several rounds."""
    if name in _WITHOUT_GRAPH:
        return _WITHOUT_GRAPH[name](size)
    rounds_of, _ = contenders(GRAPHS[name], size, None, large=name not in WITH_TEXT)
    seconds, _ = in_turns(rounds_of, rounds=ROUNDS, seconds=_SECONDS)
    return ratios_of({step: min(times) for step, times in seconds.items()})


def _default_size(name: str) -> int:
    """Return a fifth of the graph's default size, which is large enough for ratios."""
    if name in _WITHOUT_GRAPH:
        return GUARDED_SIZE if name == COLD else 1
    return max(1, GRAPHS[name].default // 5)


def _versions() -> str:
    """Return the versions of Python and jax, on whose speed the ratios depend."""
    parts = (f"{name} {'.'.join(versions()[name].split('.')[:2])}" for name in ("Python", "jax"))
    return ", ".join(parts)


def _read(file: Path) -> dict[str, Any]:
    """Return the entry of the file for these versions."""
    entry: dict[str, Any] | None = read_entries(file).get(_versions())
    if entry is None:
        raise FiguresError(f"{file} has no ratios of {_versions()}; {_update_hint(file)}")
    unknown = entry["ratios"].keys() - set(GUARDED)
    if unknown:
        raise FiguresError(f"{file} has ratios of unknown graphs: {sorted(unknown)}")
    sizeless = entry["ratios"].keys() - entry["sizes"].keys()
    if sizeless:
        raise FiguresError(f"{file} has ratios of graphs without their sizes: {sorted(sizeless)}")
    return entry
