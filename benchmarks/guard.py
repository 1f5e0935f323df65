"""Whether xlabuilder has become slower beside the others: make bench-check.

Only ratios are compared, of times measured in the same seconds, and the other side of each is not
ours: jax's trace and lowering, or MLIR alone. So a slower machine changes little, and one that is
busy for a while neither. The least of several rounds is taken, since noise only adds; and a graph
that seems worse is measured again, twice, before it counts. Ratios are kept for each version of
Python and jax, on which they depend.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from benchmarks.contenders import contenders
from benchmarks.figures import FORMAT, FiguresError, read_figures
from benchmarks.graphs import GRAPHS
from benchmarks.machine import today, versions
from benchmarks.steps import ratios_of
from benchmarks.tables import Table, show
from benchmarks.timing import in_turns

__all__ = ["ALLOWED_LOSS", "RATIOS_FILE", "check", "losses"]

RATIOS_FILE: Final = Path(__file__).with_name("ratios.json")
ALLOWED_LOSS: Final = 0.30
"""How much larger a ratio may be than the one committed."""

ROUNDS: Final = 5
TRIES: Final = 3
_SECONDS: Final = 4.0


def check(
    file: Path,
    console: Console,
    tell: Callable[[str], None],
    *,
    names: Sequence[str] = (),
    size: int | None = None,
    update: bool = False,
    measure: Callable[[str, int], dict[str, float]] | None = None,
) -> int:
    """Measures, compares and prints what got worse.

    Args:
        file: where the ratios are that hold.
        console: where to print.
        tell: is told what is measured now.
        names: the graphs; all if none is given.
        size: the size of every graph, instead of what the file (or the graph) says.
        update: whether to write the file instead of comparing.
        measure: gives the ratios of a graph of a size.

    Returns:
        The exit status: 1 after a loss.

    Raises:
        FiguresError: the file can't be read, or says nothing of these versions.
    """
    measured = measure or measure_ratios
    if update:
        entry: dict[str, Any] = {"date": today(), "sizes": {}, "ratios": {}}
        for name in names or GRAPHS:
            entry["sizes"][name] = graph_size = size or _size_of(name)
            entry["ratios"][name] = _typical(name, graph_size, measured, tell)
        _write(file, entry)
        return 0
    kept = _read(file)
    lost: list[list[str]] = []
    for name, held in kept["ratios"].items():
        if names and name not in names:
            continue
        graph_size = size or kept["sizes"][name]
        best: dict[str, float] = {}
        for attempt in range(TRIES):
            tell(f"{name} {graph_size:,}" + (", once more" if attempt else ""))
            for ratio, value in measured(name, graph_size).items():
                best[ratio] = min(value, best.get(ratio, value))
            if not losses(held, best):
                break
        lost += [[name, *row] for row in losses(held, best)]
    if not lost:
        console.print(f"No ratio is more than {ALLOWED_LOSS:.0%} worse than in {file.name}.")
        return 0
    show(Table("Slower than before", ["graph", "ratio", "was", "is", "loss"], lost, 2), console)
    return 1


def _typical(
    name: str,
    size: int,
    measure: Callable[[str, int], dict[str, float]],
    tell: Callable[[str], None],
) -> dict[str, float]:
    """The median of each ratio in several measurements."""
    found: dict[str, list[float]] = {}
    for _ in range(TRIES):
        tell(f"{name} {size:,}")
        for ratio, value in measure(name, size).items():
            found.setdefault(ratio, []).append(value)
    return {ratio: round(statistics.median(values), 4) for ratio, values in found.items()}


def losses(held: Mapping[str, float], found: Mapping[str, float]) -> list[list[str]]:
    """The ratios that are lost: name, what it was, what it is, by how much it is worse."""
    return [
        [name, f"{was:.3f}", f"{found[name]:.3f}", f"{found[name] / was - 1:+.0%}"]
        for name, was in held.items()
        if name in found and found[name] > was * (1 + ALLOWED_LOSS)
    ]


def measure_ratios(name: str, size: int) -> dict[str, float]:
    """The ratios of a graph, of the least time of each step in several rounds."""
    taking_part, _ = contenders(GRAPHS[name], size, None, large=True)
    seconds, _ = in_turns(taking_part, rounds=ROUNDS, seconds=_SECONDS)
    return ratios_of({step: min(found) for step, found in seconds.items()})


def _size_of(name: str) -> int:
    """A fifth of what stands for the graph elsewhere: enough for ratios, and soon done."""
    return max(1, GRAPHS[name].default // 5)


def _versions() -> str:
    """What the ratios depend on: how fast Python is, and how fast jax."""
    parts = (f"{name} {'.'.join(versions()[name].split('.')[:2])}" for name in ("Python", "jax"))
    return ", ".join(parts)


def _write(file: Path, entry: dict[str, Any]) -> None:
    """Sets what the file says of these versions; what it says of others stays."""
    entries = _entries(file) if file.exists() else {}
    entries[_versions()] = entry
    text = json.dumps({"format": FORMAT, "entries": entries}, indent=1)
    file.write_text(text + "\n", encoding="utf-8")


def _entries(file: Path) -> dict[str, Any]:
    entries = read_figures(file).get("entries")
    if not isinstance(entries, dict):
        raise FiguresError(f"{file} holds no ratios")
    return entries


def _read(file: Path) -> dict[str, Any]:
    """What the file says of these versions."""
    kept: dict[str, Any] | None = _entries(file).get(_versions())
    if kept is None:
        raise FiguresError(
            f"{file} has no ratios of {_versions()}: python -m benchmarks check --update"
        )
    unknown = kept["ratios"].keys() - GRAPHS.keys()
    if unknown:
        raise FiguresError(f"{file} has ratios of graphs that are not there: {sorted(unknown)}")
    return kept
