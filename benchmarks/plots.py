"""The plots: time against size, time for an op against size, and the graphs side by side.

The same figures give the same bytes: identifiers in the SVG come from a fixed salt, and no date is
written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.figures import FiguresError, need_folder
from benchmarks.steps import SUMS

__all__ = ["write_plots"]

_STYLE: Final = {
    "svg.hashsalt": "xlabuilder",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
}

_LINES: Final = {
    "jax": ("jax.jit: trace + lower", "#d1495b", "s"),
    "xla_builder": ("C++ XlaBuilder: record + convert", "#8d6a9f", "D"),
    "ours": ("xlabuilder: record + lower", "#00798c", "o"),
    "floor": ("MLIR alone: create + verify", "#8a8a8a", "^"),
    "record": ("xlabuilder: record", "#66b2c0", "o"),
}
"""Label, colour and marker of each line, the slowest first, as the legend lists them."""

_PARTS: Final = SUMS | {"record": ("record",)}


def write_plots(figures: Mapping[str, Any], folder: Path) -> list[Path]:
    """Writes an SVG for each part of the figures that can be drawn; the files.

    Raises:
        FiguresError: they can't be written.
    """
    need_folder(folder)
    found: dict[str, Figure] = {}
    with mpl.rc_context(_STYLE):
        for name, entries in figures.get("scaling", {}).items():
            found[f"scaling_{name}"] = _scaling(entries, of_an_op=False)
            found[f"scaling_{name}_op"] = _scaling(entries, of_an_op=True)
        if "graphs" in figures:
            found["graphs"] = _graphs(figures["graphs"])
        paths = []
        for name, figure in found.items():
            path = folder / f"{name}.svg"
            # Without the version of matplotlib too, which is written there otherwise.
            try:
                figure.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
            except OSError as error:
                raise FiguresError(f"{path} can't be written: {error.strerror}") from None
            paths.append(path)
    return paths


def _total(entry: Mapping[str, Any], line: str) -> float | None:
    """Microseconds an op of what a line is made of, if all of it was measured."""
    steps = _PARTS[line]
    if any(step not in entry["us"] for step in steps):
        return None
    return sum(float(entry["us"][step]["median"]) for step in steps)


def _scaling(entries: list[Mapping[str, Any]], *, of_an_op: bool) -> Figure:
    figure = Figure(figsize=(7.5, 4.5))
    axes = figure.add_subplot()
    for line, (label, colour, marker) in _LINES.items():
        points = [
            (entry["ops"], total if of_an_op else total * entry["ops"] / 1e6)
            for entry in entries
            if (total := _total(entry, line)) is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker=marker, ms=5, label=label)
    axes.set(xscale="log", yscale="log", xlabel="ops in the graph")
    axes.set_ylabel("microseconds an op" if of_an_op else "seconds")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:g}")
    # The lines fill the plot from corner to corner: the legend stands beside it.
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _one_two_five(value: float, _: object) -> str:
    """The label of a tick between powers of ten, where there is room for one."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def _graphs(graphs: Mapping[str, Any]) -> Figure:
    names = list(graphs)
    lines = [
        line
        for line in ("ours", "jax", "xla_builder", "floor")
        if any(_total(entry, line) is not None for entry in graphs.values())
    ]
    figure = Figure(figsize=(7.5, 1.0 + 0.4 * len(names)))
    axes = figure.add_subplot()
    for line in lines:
        label, colour, marker = _LINES[line]
        points = [
            (total, row)
            for row, entry in enumerate(graphs.values())
            if (total := _total(entry, line)) is not None
        ]
        # Points, not bars: a bar on a logarithmic axis begins nowhere.
        axes.plot(*zip(*points, strict=True), marker, color=colour, ms=8, label=label)
    axes.set(xscale="log", xlabel="microseconds an op", yticks=range(len(names)))
    axes.set(ylim=(-0.5, len(names) - 0.5))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(_one_two_five)
    axes.grid(visible=True, which="both", axis="x")
    axes.set_yticklabels(names)
    axes.invert_yaxis()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
