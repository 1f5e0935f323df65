"""Whether xlabuilder has become slower beside the others: make bench-check.

Only ratios are compared, of times measured in the same seconds, and the other side of each is not
ours: jax's trace and lowering, or MLIR alone. So a slower machine changes little, and one that is
busy for a while neither. The least of several rounds is taken, since noise only adds; and a graph
that seems worse is measured again, twice, before it counts. What is committed is the same: the
least of as many measurements. A ratio that is held but not measured is a failure, not a pass.
Ratios are kept for each version of Python and jax, on which they depend.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from benchmarks.cold import COLD, GUARDED_SIZE, cold_ratios
from benchmarks.contenders import contenders
from benchmarks.figures import FORMAT, FiguresError, need_writable, read_entries, replace
from benchmarks.graphs import GRAPHS
from benchmarks.machine import today, versions
from benchmarks.steps import ratios_of
from benchmarks.tables import Table, show
from benchmarks.timing import in_turns

__all__ = ["ALLOWED_LOSS", "GUARDED", "RATIOS_FILE", "check", "losses"]

RATIOS_FILE: Final = Path(__file__).with_name("ratios.json")
ALLOWED_LOSS: Final = 0.30
"""How much larger a ratio may be than the one committed."""

GUARDED: Final = (*GRAPHS, COLD)
"""What has ratios: each graph, and the first build in a fresh process."""

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
        names: graphs, or "cold"; if none is given, all that the file has, or for an update all
            there are.
        size: the size of every graph. To compare, it must be the one that the file says.
        update: whether to write what these graphs have into the file instead of comparing.
        measure: gives the ratios of a graph of a size.

    Returns:
        The exit status: 1 after a loss.

    Raises:
        FiguresError: the file can't be read, or has no ratios of these versions, or of a graph
            named, or of this size; or a ratio that it has was not measured.
    """
    measured = measure or measure_ratios
    if update:
        _update(file, tell, names or GUARDED, size, measured)
        return 0
    kept = _read(file)
    wanted = list(names or kept["ratios"])
    sizes = _sizes(file, kept, wanted, size)
    lost: list[list[str]] = []
    for name in wanted:
        held = kept["ratios"][name]
        best: dict[str, float] = {}
        for attempt in range(TRIES):
            tell(f"{name} {sizes[name]:,}" + (", once more" if attempt else ""))
            _take_least(best, measured(name, sizes[name]))
            if not losses(name, held, best):
                break
        lost += [[name, *row] for row in losses(name, held, best)]
    if not lost:
        console.print(
            f"No ratio is more than {ALLOWED_LOSS:.0%} worse than in {file.name}: "
            f"{', '.join(wanted)}.",
            highlight=False,
        )
        return 0
    show(Table("Slower than before", ["graph", "ratio", "was", "is", "loss"], lost, 2), console)
    return 1


def _sizes(
    file: Path, kept: Mapping[str, Any], wanted: Sequence[str], size: int | None
) -> dict[str, int]:
    """The sizes of the graphs wanted, of which all have ratios."""
    missing = [name for name in wanted if not kept["ratios"].get(name)]
    if missing or not wanted:
        raise FiguresError(
            f"{file} has no ratios of {', '.join(missing) or 'any graph'} for {_versions()}; "
            f"{_how_to_make(file, missing)}"
        )
    found: dict[str, int] = {name: kept["sizes"][name] for name in wanted}
    other = [f"{name} {found[name]}" for name in wanted if size not in (None, found[name])]
    if other:
        raise FiguresError(
            f"--size {size}: {file} has ratios of another size ({', '.join(other)}), which can't "
            f"be compared; {_how_to_make(file, wanted, size)}"
        )
    return found


def _how_to_make(file: Path, names: Sequence[str] = (), size: int | None = None) -> str:
    """How to enter ratios that are not there."""
    words = ["python -m benchmarks check --update", *names]
    words += [] if size is None else [f"--size {size}"]
    words += [] if file == RATIOS_FILE else [f"--file {file}"]
    return f"to enter what is measured now: {' '.join(words)}, run by the same Python"


def _update(
    file: Path,
    tell: Callable[[str], None],
    names: Sequence[str],
    size: int | None,
    measure: Callable[[str, int], dict[str, float]],
) -> None:
    """Enters the least of each ratio in as many measurements as a comparison makes."""
    entries = read_entries(file) if file.exists() else {}
    need_writable(file)
    entry = entries.setdefault(_versions(), {"date": today(), "sizes": {}, "ratios": {}})
    entry["date"] = today()
    for name in names:
        graph_size = size or _size_of(name)
        least: dict[str, float] = {}
        for _ in range(TRIES):
            tell(f"{name} {graph_size:,}")
            _take_least(least, measure(name, graph_size))
        if not least:
            raise FiguresError(f"{name}: nothing was measured")
        entry["sizes"][name] = graph_size
        entry["ratios"][name] = {ratio: round(value, 4) for ratio, value in least.items()}
    replace(file, json.dumps({"format": FORMAT, "entries": entries}, indent=1) + "\n")


def _take_least(best: dict[str, float], found: Mapping[str, float]) -> None:
    for ratio, value in found.items():
        best[ratio] = min(value, best.get(ratio, value))


def losses(name: str, held: Mapping[str, float], found: Mapping[str, float]) -> list[list[str]]:
    """The ratios that a graph lost: name, what it was, what it is, by how much it is worse.

    Raises:
        FiguresError: one that is held was not measured.
    """
    missing = [ratio for ratio in held if ratio not in found]
    if missing:
        raise FiguresError(f"{name}: was not measured, but is held: {', '.join(missing)}")
    return [
        [ratio, f"{was:.3f}", f"{found[ratio]:.3f}", f"{found[ratio] / was - 1:+.0%}"]
        for ratio, was in held.items()
        if found[ratio] > was * (1 + ALLOWED_LOSS)
    ]


WRITTEN: Final = frozenset({"chain", "lstm"})
"""Graphs whose artifact and HLO text are measured too; of all of them it would take minutes."""


def measure_ratios(name: str, size: int) -> dict[str, float]:
    """The ratios of a graph, of the least time of each step in several rounds."""
    if name == COLD:
        return cold_ratios(size, ROUNDS)
    taking_part, _ = contenders(GRAPHS[name], size, None, large=name not in WRITTEN)
    seconds, _ = in_turns(taking_part, rounds=ROUNDS, seconds=_SECONDS)
    return ratios_of({step: min(found) for step, found in seconds.items()})


def _size_of(name: str) -> int:
    """A fifth of what stands for the graph elsewhere: enough for ratios, and soon done."""
    return GUARDED_SIZE if name == COLD else max(1, GRAPHS[name].default // 5)


def _versions() -> str:
    """What the ratios depend on: how fast Python is, and how fast jax."""
    parts = (f"{name} {'.'.join(versions()[name].split('.')[:2])}" for name in ("Python", "jax"))
    return ", ".join(parts)


def _read(file: Path) -> dict[str, Any]:
    """What the file says of these versions."""
    kept: dict[str, Any] | None = read_entries(file).get(_versions())
    if kept is None:
        raise FiguresError(f"{file} has no ratios of {_versions()}; {_how_to_make(file)}")
    unknown = kept["ratios"].keys() - set(GUARDED)
    if unknown:
        raise FiguresError(f"{file} has ratios of graphs that are not there: {sorted(unknown)}")
    sizeless = kept["ratios"].keys() - kept["sizes"].keys()
    if sizeless:
        raise FiguresError(f"{file} has ratios of graphs without their sizes: {sorted(sizeless)}")
    return kept
