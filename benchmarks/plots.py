"""The plots: time against size, time per op against size, and a comparison of the graphs.

The same figures give the same bytes: the salt of the identifiers in the SVG is fixed, and the date
is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.figures import FiguresError, check_folder
from benchmarks.steps import medians

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
"""Label, colour and marker of each line, in the order of the legend (the slowest first)."""


def write_plots(figures: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the plots of the figures as SVG, and return the files.

    Raises:
        FiguresError: a file can't be written.
    """
    check_folder(folder)
    plots: dict[str, Figure] = {}
    with mpl.rc_context(_STYLE):
        for name, entries in figures.get("scaling", {}).items():
            plots[f"scaling_{name}"] = _scaling(entries, per_op=False)
            plots[f"scaling_{name}_op"] = _scaling(entries, per_op=True)
        if "graphs" in figures:
            plots["graphs"] = _graphs(figures["graphs"])
        paths = []
        for name, figure in plots.items():
            path = folder / f"{name}.svg"
            # "Creator" would contain the version of matplotlib.
            try:
                figure.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
            except OSError as error:
                raise FiguresError(f"{path} can't be written: {error.strerror}") from None
            paths.append(path)
    return paths


def _scaling(entries: list[Mapping[str, Any]], *, per_op: bool) -> Figure:
    figure = Figure(figsize=(7.5, 4.5))
    axes = figure.add_subplot()
    for line, (label, colour, marker) in _LINES.items():
        points = [
            (entry["ops"], total if per_op else total * entry["ops"] / 1e6)
            for entry in entries
            if (total := medians(entry).get(line)) is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker=marker, ms=5, label=label)
    axes.set(xscale="log", yscale="log", xlabel="ops in the graph")
    axes.set_ylabel("microseconds per op" if per_op else "seconds")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:g}")
    # Beside the plot, because the lines fill it.
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _one_two_five(value: float, _: object) -> str:
    """Format a minor tick of a logarithmic axis: only 2 and 5 have labels."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def _graphs(graphs: Mapping[str, Any]) -> Figure:
    names = list(graphs)
    figure = Figure(figsize=(7.5, 1.0 + 0.4 * len(names)))
    axes = figure.add_subplot()
    for line in ("ours", "jax", "xla_builder", "floor"):
        label, colour, marker = _LINES[line]
        points = [
            (total, row)
            for row, entry in enumerate(graphs.values())
            if (total := medians(entry).get(line)) is not None
        ]
        if points:
            # Points, because a logarithmic axis has no zero where bars could start.
            axes.plot(*zip(*points, strict=True), marker, color=colour, ms=8, label=label)
    axes.set(xscale="log", xlabel="microseconds per op", yticks=range(len(names)))
    axes.set(ylim=(-0.5, len(names) - 0.5))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(_one_two_five)
    axes.grid(visible=True, which="both", axis="x")
    axes.set_yticklabels(names)
    axes.invert_yaxis()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
