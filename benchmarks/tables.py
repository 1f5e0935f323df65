"""The figures as tables: for the terminal (rich), and for documents (Markdown)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable

from benchmarks.budget import held
from benchmarks.steps import CONTENDERS, STEPS, SUMS

__all__ = [
    "PARTS",
    "Table",
    "budget_table",
    "budget_tables",
    "markdown",
    "missing_table",
    "show",
    "tables_of",
]


@dataclass
class Table:
    """Rows of text. The first `words` columns hold words, the others numbers."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    words: int = 1


def show(table: Table, console: Console) -> None:
    """Prints a table; without the quartiles where the console is too narrow for them."""
    shown = _rich(table, table.rows)
    if Measurement.get(console, console.options.update(width=1_000), shown).maximum > console.width:
        shown = _rich(table, [[_RANGE.sub("", cell) for cell in row] for row in table.rows])
        shown.collapse_padding, shown.pad_edge, shown.show_edge = True, False, False
    console.print(shown)


_RANGE: Final = re.compile(r" \([\d.,]+–[\d.,]+\)$")


def _rich(table: Table, rows: list[list[str]]) -> RichTable:
    shown = RichTable(title=table.title, box=box.SIMPLE, title_justify="left", title_style="bold")
    for index, column in enumerate(table.columns):
        # Headings may be broken, numbers and names not.
        longest = max((len(row[index]) for row in rows), default=0)
        narrowest = longest if index == 0 or index >= table.words else None
        justify: Literal["left", "right"] = "right" if index >= table.words else "left"
        shown.add_column(column, justify=justify, min_width=narrowest)
    for row in rows:
        shown.add_row(*row)
    return shown


def markdown(table: Table) -> str:
    """A table in Markdown, without its title."""
    rules = ["---" if i < table.words else "---:" for i in range(len(table.columns))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (table.columns, rules, *table.rows))


def _range(values: Mapping[str, float]) -> str:
    """The median, and the quartiles where there were several rounds."""
    median = _number(values["median"])
    if values["rounds"] < 2:
        return median
    return f"{median} ({_number(values['low'])}–{_number(values['high'])})"


def _number(value: float) -> str:
    """Two decimals for small numbers, fewer for large ones."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _cell(us: Mapping[str, Mapping[str, float]], step: str) -> str:
    return _range(us[step]) if step in us else "—"


def _sum(us: Mapping[str, Mapping[str, float]], who: str) -> str:
    if any(step not in us for step in SUMS[who]):
        return "—"
    return _number(sum(us[step]["median"] for step in SUMS[who]))


def _steps(contender: str) -> list[str]:
    return [name for name, step in STEPS.items() if step.contender == contender]


_SHORT: Final = {"ours": "ours", "jax": "jax", "xla_builder": "C++", "floor": "floor"}
_OTHERS: Final = ("jax", "xla_builder")
_ALONE: Final = ("floor", "objects")
_COMPARED: Final = ("than jax", "than C++", "lower / floor")
_MEMORY_OF_JAX: Final = ("jax: trace and module", "jax: peak, MB")


def _compared(ratios: Mapping[str, float]) -> list[str]:
    """The cells below _COMPARED."""
    faster = [_faster(ratios, "ours/jax"), _faster(ratios, "ours/xla_builder")]
    return [*faster, _times(ratios, "lower/floor")]


def _faster(ratios: Mapping[str, float], name: str) -> str:
    return f"{1 / ratios[name]:.1f}×" if name in ratios else "—"


def _times(ratios: Mapping[str, float], name: str) -> str:
    return f"{ratios[name]:.2f}×" if name in ratios else "—"


def _graph_tables(figures: Mapping[str, Any]) -> list[Table]:
    graphs = figures["graphs"]
    summary = Table(
        "Record + lower to a verified module, us an op, and how many times faster",
        ["graph", "ops", *(_SHORT[who] for who in SUMS), *_COMPARED],
    )
    ours = Table(
        "xlabuilder, us an op: median (quartiles)",
        ["graph", *(STEPS[step].title for step in _steps("ours"))],
    )
    others, alone = (
        Table(
            f"{title}, us an op: median (quartiles)",
            ["graph"]
            + [
                f"{CONTENDERS[who]}: {STEPS[step].title}" if len(whose) > 1 else STEPS[step].title
                for who in whose
                for step in _steps(who)
            ],
        )
        for title, whose in (("The others", _OTHERS), ("MLIR and Python alone", _ALONE))
    )
    memory = Table(
        "Memory",
        ["graph", "recorded, bytes an op", "with module", "peak, MB", *_MEMORY_OF_JAX],
    )
    for name, entry in graphs.items():
        us, ratios = entry["us"], entry["ratios"]
        sums = [_sum(us, who) for who in SUMS]
        summary.rows.append([name, f"{entry['ops']:,}", *sums, *_compared(ratios)])
        ours.rows.append([name, *(_cell(us, step) for step in _steps("ours"))])
        for table, whose in ((others, _OTHERS), (alone, _ALONE)):
            cells = [_cell(us, step) for who in whose for step in _steps(who)]
            table.rows.append([name, *cells])
        if "memory" in entry:
            bytes_of = entry["memory"]
            memory.rows.append(
                [name]
                + [f"{bytes_of[k]:,.0f}" for k in ("recorded_bytes", "with_module_bytes")]
                + [f"{bytes_of['peak_bytes'] / 1e6:,.0f}", f"{bytes_of['jax_bytes']:,.0f}"]
                + [f"{bytes_of['jax_peak_bytes'] / 1e6:,.0f}"]
            )
    return [summary, ours, others, alone, memory]


def missing_table(figures: Mapping[str, Any]) -> Table:
    """Who could not do what, and why."""
    table = Table("Not measured", ["graph", "contender", "why"], words=3)
    entries = [
        *figures.get("graphs", {}).items(),
        *((n, entry) for n, sizes in figures.get("scaling", {}).items() for entry in sizes),
    ]
    for name, entry in entries:
        for who, why in entry["missing"].items():
            table.rows.append([f"{name} {entry['size']:,}", CONTENDERS.get(who, who), why])
    return table


def _scaling_tables(figures: Mapping[str, Any]) -> list[Table]:
    tables = []
    large = [step for step in _steps("ours") if STEPS[step].large]
    theirs = [who for who in SUMS if who != "ours"]
    for name, entries in figures["scaling"].items():
        table = Table(
            f"Sizes of {name}, us an op, and how many times faster",
            ["ops", *(STEPS[s].title for s in large), *(_SHORT[who] for who in theirs), *_COMPARED],
            words=0,
        )
        for entry in entries:
            us, ratios = entry["us"], entry["ratios"]
            cells = [*(_cell(us, step) for step in large), *(_sum(us, who) for who in theirs)]
            table.rows.append([f"{entry['ops']:,}", *cells, *_compared(ratios)])
        tables.append(table)
    return tables


def _end_to_end_tables(figures: Mapping[str, Any]) -> list[Table]:
    table = Table(
        "From the first op to the first result, ms",
        ["graph", "ops", "", "record", "lower", "compile", "run", "total"],
        words=1,
    )
    for entry in figures["end_to_end"]:
        for who in ("ours", "jax"):
            ms = entry["ms"][who]
            table.rows.append(
                [entry["graph"], f"{entry['ops']:,}", CONTENDERS[who]]
                + [_range(ms[stage]) for stage in ("record", "lower", "compile", "run", "total")]
            )
    return [table]


def _cold_tables(figures: Mapping[str, Any]) -> list[Table]:
    stages = ["import", "record", "lower", "total"]
    table = Table(
        "The first build in a fresh process, ms", ["graph", "ops", "", *stages, "than jax"], words=1
    )
    for entry in figures["cold"]:
        faster = {"ours": _faster(entry["ratios"], "total, ours/jax"), "jax": ""}
        for who in ("ours", "jax"):
            cells = [_range(entry["ms"][who][stage]) for stage in stages]
            row = [entry["graph"], f"{entry['ops']:,}", CONTENDERS[who], *cells, faster[who]]
            table.rows.append(row)
    return [table]


def _import_tables(figures: Mapping[str, Any]) -> list[Table]:
    table = Table(
        "Imports, ms", ["import", "ms", "of which the processor worked", "beyond", "which takes"]
    )
    for package, entry in figures["imports"].items():
        cells = [_range(entry["ms"]), _range(entry["cpu_ms"]), entry["over"]]
        table.rows.append([package, *cells, _range(entry["over_ms"])])
    tables = [table]
    for package, entry in figures["imports"].items():
        if "modules" in entry:
            rows = [[name, f"{ms:.2f}"] for ms, name in entry["modules"]]
            title = f"What takes longest of import {package}, beyond {entry['over']}"
            tables.append(Table(title, ["module", "ms"], rows))
    return tables


def _packing_tables(figures: Mapping[str, Any]) -> list[Table]:
    columns = ["shape", "pack", "unpack", "copy", "copy, new", "pack / copy", "pack / new"]
    table = Table("Arrays packed into buffers, ms", columns)
    for entry in figures["packing"]:
        ms, ratios = entry["ms"], entry["ratios"]
        cells = [_range(ms[name]) for name in ("pack", "unpack", "copy", "fresh")]
        compared = [_times(ratios, name) for name in ("pack/copy", "pack/fresh")]
        table.rows.append([entry["shape"], *cells, *compared])
    return [table]


def _dispatch_tables(figures: Mapping[str, Any]) -> list[Table]:
    columns = ["arguments", "", "ours", "lowering.jit", "jax.jit"]
    columns += ["ours / jax", "lowering.jit / jax"]
    table = Table("A call, us", columns, words=2)
    for entry in figures["dispatch"]:
        us, ratios = entry["us"], entry["ratios"]
        cells = [_cell(us, who) for who in ("ours", "lowering.jit", "jax")]
        compared = [_times(ratios, name) for name in ("ours/jax", "lowering.jit/jax")]
        counts = f"{entry['arguments']} in, {entry['results']} out"
        table.rows.append([counts, entry["kind"], *cells, *compared])
    return [table]


PARTS: Final[dict[str, Callable[[Mapping[str, Any]], list[Table]]]] = {
    "graphs": _graph_tables,
    "scaling": _scaling_tables,
    "end_to_end": _end_to_end_tables,
    "cold": _cold_tables,
    "imports": _import_tables,
    "packing": _packing_tables,
    "dispatch": _dispatch_tables,
}
"""The tables of each part of the figures."""


def budget_table(figures: dict[str, Any]) -> Table:
    """Every promise, the figure, and whether it is met."""
    rows = [[h.graph, h.promise, h.figure, "met" if h.met else "NOT met"] for h in held(figures)]
    return Table("The budget", ["", "promise", "measured", ""], rows, words=2)


def budget_tables(figures: dict[str, Any]) -> list[Table]:
    """The budget for a page: what is promised of several graphs side by side, and the rest."""
    found = held(figures)
    times = Counter(h.promise for h in found)
    shared = [promise for promise, count in times.items() if count > 1]
    names = list(dict.fromkeys(h.graph for h in found if h.promise in shared))
    cells = {(h.promise, h.graph): h.figure if h.met else f"{h.figure}: **not met**" for h in found}
    rows = [[promise, *(cells.get((promise, name), "—") for name in names)] for promise in shared]
    table = budget_table(figures)
    rest = [row for row in table.rows if row[1] not in shared]
    tables = [Table(table.title, ["promise", *names], rows)] if rows else []
    return tables + ([Table(table.title, table.columns, rest, words=2)] if rest else [])


def tables_of(figures: dict[str, Any]) -> list[Table]:
    """All tables that the figures fill."""
    found = [table for part, make in PARTS.items() if part in figures for table in make(figures)]
    ends = (missing_table(figures), budget_table(figures))
    return found + [table for table in ends if table.rows]
