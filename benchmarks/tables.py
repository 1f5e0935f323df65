"""The figures as tables, for the terminal (rich) and for documents (Markdown)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable

from benchmarks.budget import evaluate
from benchmarks.library.explanations import COLUMNS, is_above
from benchmarks.steps import CONTENDERS, STEPS, SUMS, medians

__all__ = [
    "ABOVE",
    "PARTS",
    "Table",
    "all_tables",
    "budget_table",
    "budget_tables",
    "markdown",
    "missing_table",
    "show",
]


@dataclass
class Table:
    """Rows of text. The first `text_columns` columns contain text, the others numbers."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    text_columns: int = 1


def show(table: Table, console: Console) -> None:
    """Print a table, without the quartiles if the console is too narrow for them."""
    rich_table = _rich_table(table, table.rows)
    unlimited = console.options.update(width=1_000)
    if Measurement.get(console, unlimited, rich_table).maximum > console.width:
        rows = [[_QUARTILES.sub("", cell) for cell in row] for row in table.rows]
        rich_table = _rich_table(table, rows)
        rich_table.collapse_padding, rich_table.pad_edge, rich_table.show_edge = True, False, False
    console.print(rich_table)


_QUARTILES: Final = re.compile(r" \([\d.,]+–[\d.,]+\)$")


def _rich_table(table: Table, rows: list[list[str]]) -> RichTable:
    rich_table = RichTable(
        title=table.title, box=box.SIMPLE, title_justify="left", title_style="bold"
    )
    for index, column in enumerate(table.columns):
        # Headings and text may wrap; names in the first column and numbers may not.
        is_number = index >= table.text_columns
        longest = max((len(row[index]) for row in rows), default=0)
        justify: Literal["left", "right"] = "right" if is_number else "left"
        min_width = longest if index == 0 or is_number else None
        rich_table.add_column(column, justify=justify, min_width=min_width)
    for row in rows:
        rich_table.add_row(*row)
    return rich_table


def markdown(table: Table) -> str:
    """Return a table in Markdown, without its title."""
    rules = ["---" if i < table.text_columns else "---:" for i in range(len(table.columns))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (table.columns, rules, *table.rows))


def _range(values: Mapping[str, float]) -> str:
    """Format the median, with the quartiles if there were several rounds."""
    median = _number(values["median"])
    if values["rounds"] < 2:
        return median
    return f"{median} ({_number(values['low'])}–{_number(values['high'])})"


def _number(value: float) -> str:
    """Format a number with two decimals if it is small, with fewer if it is large."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _cell(us: Mapping[str, Mapping[str, float]], step: str) -> str:
    return _range(us[step]) if step in us else "—"


def _totals(entry: Mapping[str, Any], contenders: Iterable[str]) -> list[str]:
    us = medians(entry)
    return [_number(us[name]) if name in us else "—" for name in contenders]


def _steps(contender: str) -> list[str]:
    return [name for name, step in STEPS.items() if step.contender == contender]


_SHORT: Final = {"ours": "ours", "jax": "jax", "xla_builder": "C++", "floor": "floor"}
_RATIO_COLUMNS: Final = ("than jax", "than C++", "lower / floor")
_MEMORY: Final = {
    "recorded, bytes per op": ("recorded_bytes", 1),
    "with module": ("with_module_bytes", 1),
    "peak, MB": ("peak_bytes", 1e6),
    "jax: trace and module": ("jax_bytes", 1),
    "jax: peak, MB": ("jax_peak_bytes", 1e6),
}
"""The keys and divisors of the columns of the memory table."""


def _ratio_cells(ratios: Mapping[str, float]) -> list[str]:
    """Return the cells of _RATIO_COLUMNS."""
    faster = [_faster(ratios, "ours/jax"), _faster(ratios, "ours/xla_builder")]
    return [*faster, _times(ratios, "lower/floor")]


def _faster(ratios: Mapping[str, float], name: str) -> str:
    return f"{1 / ratios[name]:.1f}×" if name in ratios else "—"


def _times(ratios: Mapping[str, float], name: str) -> str:
    return f"{ratios[name]:.2f}×" if name in ratios else "—"


def _steps_table(title: str, graphs: Mapping[str, Any], *names: str) -> Table:
    """Return the times of all steps of some contenders, a row for each graph."""
    steps = [step for name in names for step in _steps(name)]
    columns = ["graph"]
    for step in steps:
        contender, step_title, _ = STEPS[step]
        prefix = f"{CONTENDERS[contender]}: " if len(names) > 1 else ""
        columns.append(prefix + step_title)
    rows = [
        [graph, *(_cell(entry["us"], step) for step in steps)] for graph, entry in graphs.items()
    ]
    return Table(f"{title}, us per op: median (quartiles)", columns, rows)


def _graph_tables(figures: Mapping[str, Any]) -> list[Table]:
    graphs = figures["graphs"]
    summary = Table(
        "Record + lower to a verified module, us per op, and speedups",
        ["graph", "ops", *(_SHORT[contender] for contender in SUMS), *_RATIO_COLUMNS],
    )
    memory = Table("Memory", ["graph", *_MEMORY])
    for name, entry in graphs.items():
        cells = [*_totals(entry, SUMS), *_ratio_cells(entry["ratios"])]
        summary.rows.append([name, f"{entry['ops']:,}", *cells])
        if "memory" in entry:
            sizes = [f"{entry['memory'][key] / unit:,.0f}" for key, unit in _MEMORY.values()]
            memory.rows.append([name, *sizes])
    return [
        summary,
        _steps_table("xlabuilder", graphs, "ours"),
        _steps_table("Other contenders", graphs, "jax", "xla_builder"),
        _steps_table("MLIR and Python alone", graphs, "floor", "objects"),
        memory,
    ]


def missing_table(figures: Mapping[str, Any]) -> Table:
    """Return the contenders that could not be measured, and the reasons."""
    table = Table("Not measured", ["graph", "contender", "reason"], text_columns=3)
    entries = [
        *figures.get("graphs", {}).items(),
        *((n, entry) for n, sizes in figures.get("scaling", {}).items() for entry in sizes),
    ]
    for name, entry in entries:
        for contender, reason in entry["missing"].items():
            title = CONTENDERS.get(contender, contender)
            table.rows.append([f"{name} {entry['size']:,}", title, reason])
    return table


def _scaling_tables(figures: Mapping[str, Any]) -> list[Table]:
    tables = []
    steps = [step for step in _steps("ours") if STEPS[step].large]
    others = [contender for contender in SUMS if contender != "ours"]
    titles = [STEPS[step].title for step in steps] + [_SHORT[contender] for contender in others]
    for name, entries in figures["scaling"].items():
        table = Table(
            f"Sizes of {name}, us per op, and speedups",
            ["ops", *titles, *_RATIO_COLUMNS],
            text_columns=0,
        )
        for entry in entries:
            cells = [*(_cell(entry["us"], step) for step in steps), *_totals(entry, others)]
            table.rows.append([f"{entry['ops']:,}", *cells, *_ratio_cells(entry["ratios"])])
        tables.append(table)
    return tables


def _end_to_end_tables(figures: Mapping[str, Any]) -> list[Table]:
    stages = ["record", "lower", "compile", "run", "total"]
    table = Table("From the first op to the first result, ms", ["graph", "ops", "", *stages])
    for entry in figures["end_to_end"]:
        for side in ("ours", "jax"):
            cells = [_range(entry["ms"][side][stage]) for stage in stages]
            table.rows.append([entry["graph"], f"{entry['ops']:,}", CONTENDERS[side], *cells])
    return [table]


def _cold_tables(figures: Mapping[str, Any]) -> list[Table]:
    stages = ["import", "record", "lower", "total"]
    columns = ["graph", "ops", "", *stages, "than jax"]
    table = Table("The first build in a fresh process, ms", columns)
    for entry in figures["cold"]:
        speedup = {"ours": _faster(entry["ratios"], "total, ours/jax"), "jax": ""}
        for side in ("ours", "jax"):
            cells = [_range(entry["ms"][side][stage]) for stage in stages]
            row = [entry["graph"], f"{entry['ops']:,}", CONTENDERS[side], *cells, speedup[side]]
            table.rows.append(row)
    return [table]


def _import_tables(figures: Mapping[str, Any]) -> list[Table]:
    columns = ["import", "elapsed, ms", "CPU, ms", "after", "which takes, ms"]
    tables = [Table("Imports, ms", columns)]
    for package, entry in figures["imports"].items():
        cells = [_range(entry["ms"]), _range(entry["cpu_ms"]), entry["over"]]
        tables[0].rows.append([package, *cells, _range(entry["over_ms"])])
        if "modules" in entry:
            rows = [[name, f"{ms:.2f}"] for ms, name in entry["modules"]]
            title = f"The slowest modules of import {package}, without those of {entry['over']}"
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
    table = Table("A call, us", columns, text_columns=2)
    for entry in figures["dispatch"]:
        us, ratios = entry["us"], entry["ratios"]
        cells = [_cell(us, who) for who in ("ours", "lowering.jit", "jax")]
        compared = [_times(ratios, name) for name in ("ours/jax", "lowering.jit/jax")]
        counts = f"{entry['arguments']} in, {entry['results']} out"
        table.rows.append([counts, entry["kind"], *cells, *compared])
    return [table]


def _library_tables(figures: Mapping[str, Any]) -> list[Table]:
    columns = ["function", "arguments, large", "ours, ms", *COLUMNS]
    table = Table("Functions of builder.lib, ratios to jax.jit", columns, text_columns=2)
    functions: dict[str, dict[str, Any]] = {}
    for entry in figures["library"]:
        column = f"{entry['type']} {entry['size']}"
        functions.setdefault(entry["function"], {})[column] = entry
    for name, measured in sorted(functions.items(), key=_largest_ratio, reverse=True):
        # Arguments that are the same at both sizes are measured once, as small ones.
        shown = measured.get("f32 large") or measured["f32 small"]
        cells = [_library_cell(measured.get(column)) for column in COLUMNS]
        ours = _number(shown["ms"]["ours"]["median"])
        table.rows.append([name, shown["arguments"] or "none", ours, *cells])
    return [table]


def _largest_ratio(function: tuple[str, Mapping[str, Any]]) -> tuple[bool, float]:
    """Return the order of the rows: functions above the target, and the largest ratio."""
    entries = function[1].values()
    return any(map(is_above, entries)), max(entry["ratios"]["ours/jax"] for entry in entries)


def _library_cell(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "—"
    return _times(entry["ratios"], "ours/jax") + (ABOVE if is_above(entry) else "")


ABOVE: Final = " above"
"""The mark of a function that misses the target."""


def _operands_tables(figures: Mapping[str, Any]) -> list[Table]:
    columns = ["function", "arguments", "passed, ms", "computed, ms", "computed / passed"]
    columns += [f"jax: {column}" for column in columns[2:]]
    table = Table("Small operands, passed and computed in the program", columns, text_columns=2)
    ratio = "{}, computed/passed".format
    for entry in sorted(figures["operands"], key=lambda e: -float(e["ratios"][ratio("ours")])):
        cells = [entry["function"], entry["arguments"]]
        for who in _SIDES:
            cells += [_number(entry["ms"][f"{who}{way}"]["median"]) for way in ("", ", computed")]
            cells.append(_times(entry["ratios"], ratio(who)))
        table.rows.append(cells)
    return [table]


def _interop_tables(figures: Mapping[str, Any]) -> list[Table]:
    columns = ["step", "beside", "ours", "reference", "ours / reference"]
    table = Table("Computations inside jax, and recorded gradients, ms", columns, text_columns=2)
    for entry in figures["interop"]:
        cells = [_range(entry["ms"][who]) for who in ("ours", "reference")]
        compared = _times(entry["ratios"], "ours/reference")
        table.rows.append([entry["what"], entry["beside"], *cells, compared])
    return [table]


def _derivative_tables(figures: Mapping[str, Any]) -> list[Table]:
    columns = ["step", "products", "jax", "optimized", "jax", "error"]
    kinds = {"step": "CPU of a step, ms", "warm": "gradients, ms", "cold": "gradients cold, ms"}
    for title in kinds.values():
        columns += [title, "jax", "ours / jax"]
    table = Table("Recorded gradients of training steps", columns)
    for entry in figures["derivatives"]:
        cells = [str(entry[key][who]) for key in ("products", "optimized") for who in _SIDES]
        cells.append(f"{entry['error']:.1g}")
        for kind in kinds:
            cells += [_range(entry["ms"][kind][who]) for who in _SIDES]
            cells.append(_times(entry["ratios"], f"{kind}, ours/jax"))
        table.rows.append([entry["model"], *cells])
    return [table]


_SIDES: Final = ("ours", "jax")


def _threads_tables(figures: Mapping[str, Any]) -> list[Table]:
    columns = ["program", "", "ours", "jax.jit", "ours / jax"]
    table = Table("Calls by several threads, us", columns, text_columns=2)
    for entry in figures["threads"]:
        name = f"{entry['program']}, {entry['threads']} threads"
        for quantity, sides in entry["us"].items():
            cells = [_range(sides[who]) for who in _SIDES]
            compared = _times(entry["ratios"], f"{quantity}, ours/jax")
            table.rows.append([name, quantity, *cells, compared])
    return [table]


def _start_tables(figures: Mapping[str, Any]) -> list[Table]:
    entry = figures["start"]
    title = f"The start of {entry['graph']} {entry['size']:,} in a fresh process, ms"
    table = Table(title, ["from", *entry["ms"]["ours"], "ours / this"])
    for side, source in _STARTED_FROM.items():
        cells = [_range(stage) for stage in entry["ms"][side].values()]
        table.rows.append([source, *cells, _times(entry["ratios"], f"total, ours/{side}")])
    return [table]


_STARTED_FROM: Final = {
    "ours": "a file of executable.save",
    "jax": "jax: a file of serialize_executable",
    "jit": "jax.jit: no file",
}


def _tools_tables(figures: Mapping[str, Any]) -> list[Table]:
    columns = ["tool", "beside", "ops", "ours", "us per op", "reference", "ours / reference"]
    table = Table("Tools, ms", columns, text_columns=2)
    for entry in figures["tools"]:
        ours, reference = (entry["ms"][who] for who in ("ours", "reference"))
        # A process with a few ops takes the same time without them.
        per_op = _number(ours["median"] * 1e3 / entry["ops"]) if entry["ops"] > 10 else "—"
        cells = [f"{entry['ops']:,}", _range(ours), per_op, _range(reference)]
        compared = _times(entry["ratios"], "ours/reference")
        table.rows.append([entry["what"], entry["beside"], *cells, compared])
    return [table]


def _scale_tables(figures: Mapping[str, Any]) -> list[Table]:
    entries = figures["scale"]
    columns = ["step"]
    for entry in entries:
        columns += [f"{entry['devices']} devices: ours", "jax"]
    first, last = entries[0], entries[-1]
    table = Table("Virtual devices, CPU ms", [*columns, "ours, growth", "jax, growth"])
    for step in first["ms"]:
        cells = [
            _range(entry["ms"][step][who]) if who in entry["ms"][step] else "—"
            for entry in entries
            for who in _SIDES
        ]
        growth = [
            f"{last['ms'][step][who]['median'] / first['ms'][step][who]['median']:.1f}×"
            if who in first["ms"][step]
            else "—"
            for who in _SIDES
        ]
        table.rows.append([step, *cells, *growth])
    return [table]


PARTS: Final[dict[str, Callable[[Mapping[str, Any]], list[Table]]]] = {
    "graphs": _graph_tables,
    "scaling": _scaling_tables,
    "end_to_end": _end_to_end_tables,
    "cold": _cold_tables,
    "imports": _import_tables,
    "packing": _packing_tables,
    "dispatch": _dispatch_tables,
    "library": _library_tables,
    "operands": _operands_tables,
    "interop": _interop_tables,
    "derivatives": _derivative_tables,
    "threads": _threads_tables,
    "start": _start_tables,
    "tools": _tools_tables,
    "scale": _scale_tables,
}
"""The tables of each part of the figures."""


def budget_table(figures: dict[str, Any]) -> Table:
    """Return every target with the figure measured, and whether it is met."""
    rows = [
        [result.graph, result.target, result.figure, "met" if result.met else "NOT met"]
        for result in evaluate(figures)
    ]
    return Table("Budget", ["", "target", "measured", ""], rows, text_columns=2)


def budget_tables(figures: dict[str, Any]) -> list[Table]:
    """Return the budget for a page: targets of several graphs, with a column each, and the rest."""
    results = evaluate(figures)
    counts = Counter(r.target for r in results if r.graph in figures.get("graphs", {}))
    shared = [target for target, count in counts.items() if count > 1]
    graphs = list(dict.fromkeys(result.graph for result in results if result.target in shared))
    cells = {
        (result.target, result.graph): result.figure + ("" if result.met else ": **not met**")
        for result in results
    }
    rows = [[target, *(cells.get((target, graph), "—") for graph in graphs)] for target in shared]
    rest = budget_table(figures)
    rest.rows = [row for row in rest.rows if row[1] not in shared]
    tables = (Table(rest.title, ["target", *graphs], rows), rest)
    return [table for table in tables if table.rows]


def all_tables(figures: dict[str, Any]) -> list[Table]:
    """Return all tables for which the figures contain measurements."""
    tables = [table for part, make in PARTS.items() if part in figures for table in make(figures)]
    last = (missing_table(figures), budget_table(figures))
    return tables + [table for table in last if table.rows]
