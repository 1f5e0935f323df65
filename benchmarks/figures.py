"""The figures of a run, as they stand in a JSON file.

    format          1
    date, machine, versions, peer    of the run; "peer" is None without --peer-python
    quick           whether it was a quick run, which says little
    rounds          how many rounds at most
    graphs          by name: "title", "size"; "ops", "computations" (recorded) and "operations" (of
                    the module); "us": for each step the spread of its microseconds an op; "ratios"
                    of the medians; "memory": bytes an op, and peaks of the process; "missing": why
                    a contender has no figures
    scaling         by name: a list of the same for growing sizes, without "memory"
    end_to_end      a list: "graph", "size", "ops"; "ms": for "ours" and "jax" the spread of each
                    stage's milliseconds; "ratios"
    imports         by package: "ms", "cpu_ms", "over_ms": spreads; "over": what was there before;
                    "modules", with --modules: milliseconds and names of those that take longest

A part that was not measured is not there. A spread is "median", "low" and "high" (the quartiles),
"least" and "rounds". Times are divided by "ops", whoever took them, so that all are comparable.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, today, versions

__all__ = ["FORMAT", "FiguresError", "new_figures", "read_figures", "write_figures"]

FORMAT: Final = 1


class FiguresError(Exception):
    """A file holds no figures; the message says why, on one line."""


def new_figures(*, rounds: int, quick: bool, peer: dict[str, str] | None) -> dict[str, Any]:
    """Figures in which nothing has been measured yet."""
    return {
        "format": FORMAT,
        "date": today(),
        "machine": machine(),
        "versions": versions(),
        "peer": peer,
        "quick": quick,
        "rounds": rounds,
    }


def write_figures(figures: dict[str, Any], path: Path) -> None:
    """Writes a file. Numbers are cut to four digits: more would be noise."""
    path.write_text(json.dumps(_cut(figures), indent=1) + "\n", encoding="utf-8")


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cut(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value


def read_figures(path: Path) -> dict[str, Any]:
    """Reads a file.

    Raises:
        FiguresError: there is none, or it holds something else.
    """
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FiguresError(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise FiguresError(f"{path} is no JSON: {error}") from None
    if not isinstance(figures, dict) or figures.get("format") != FORMAT:
        raise FiguresError(f"{path} holds no figures of format {FORMAT}")
    return figures
