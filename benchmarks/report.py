"""Writes docs/performance.md and its plots from the figures of a run.

    python -m benchmarks report FILE

All numbers come from the file; so does whether a promise is met. The prose is here.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Final

from benchmarks import budget, out_of_reach
from benchmarks.figures import need_writable, replace, write_figures
from benchmarks.gpus import gpu_section
from benchmarks.plots import write_plots
from benchmarks.tables import PARTS, budget_tables, markdown, missing_table

__all__ = ["DOCS", "report_text", "write_report"]

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"

_INTRODUCTION: Final = """\
# Performance

How long it takes to record a graph, to lower it to StableHLO and to write it, beside those who do
the same: jax.jit, MLIR alone, and the C++ XlaBuilder. `python -m benchmarks report` writes this
page; its numbers are those of one run, [figures.json](performance/figures.json).

{conditions}

To run it again:

```console
$ make bench
$ make bench BENCH_ARGS="all --json figures.json --peer-python PATH"
$ .venv/bin/python -m benchmarks report figures.json
```

The first line measures all but the C++ XlaBuilder, which newer jaxlibs don't have any more.
`--peer-python` names a Python 3.11 with jaxlib 0.4.30 or 0.6.0 and NumPy, which is run beside. The
last line writes this page and its plots. `--quick` takes a minute; `make bench BENCH_ARGS=--help`
lists what else there is. `make bench-check` measures ratios alone and fails where xlabuilder has
become {allowed} % slower beside the others than [benchmarks/ratios.json](../benchmarks/ratios.json)
says, or where a ratio that stands there could not be measured.
"""

_METHOD: Final = """\
## What is measured, and how

- Each graph is written once, in `benchmarks/graphs`, and recorded through a small module for each
  language (`benchmarks/languages`), so that all build the same.
- All contenders run in one process and take turns, in an order that is reversed from round to
  round; the C++ XlaBuilder runs in a process of its own, which stays open and takes its turn too.
  Figures are medians of up to {rounds} rounds, with the quartiles in brackets. One that has used
  up its time is left out of further rounds, which is why the largest graphs have no quartiles.
- Times are those that the processor worked for the process (`time.process_time`): a machine that
  does other things too makes them no longer. From the first op to the first result it is time that
  passed, as XLA compiles on several threads.
- Times are divided by the number of ops of the graph as it is written, whoever took the time:
  what a loop or a branch applies counts wherever it is applied, as it does in the module and as the
  others record it; another computation, such as a reducer, counts once. A function of
  `xb.computation` xlabuilder records once{shared}.
  Memory is of an op recorded. What the others call an operation differs little.
- The garbage collector is on, as a user has it; before each measurement it has collected.
- Where graphs are built, memory that was freed stays with the process (by `mallopt`, where the C
  library is glibc), that of the C++ XlaBuilder too, so that nobody's turn has to wait for pages
  that the system gives it: 100 MB of constants are 25,000 pages, which can take longer than all
  else. The first module of a process waits for them once, whoever makes it. Arrays are packed as a
  user does it, with memory that the system gives and takes.
- A process has caches that it fills as it works: of shapes and signatures here, of primitives
  there. They are not emptied, on neither side: clearing jax's would make it slower than its users
  see it. A function that it has traced before jax would find again, so in each round it gets a
  new one.
- **ours**: `record` is all of a user's program, with the loops and calls around the ops; `lower`
  is `lowering.lower`, which verifies the module. `verify alone` is the part of it that MLIR's
  verifier takes, measured again. The rest is what can be done with a module: bytecode, the
  portable artifact, HLO text. `record, collector off` is the same recording while Python's garbage
  collector doesn't run.
- **jax.jit**: `jax.jit(f).trace(...)` and `.lower()` of the same graph in `jax.lax`, without
  jax.numpy, which would be slower. It verifies as well.
- **MLIR alone**, the floor: the finished module is walked once, and names, types, attributes and
  locations are noted; then `ir.Operation.create` is called for each operation, those in regions
  included, with nothing left to find out but the operands, and the result is verified. No program
  that creates operations one by one through MLIR's Python bindings can be faster. Constants are
  in the context already, so copying them is not part of it; `copy the constants` is
  `ir.DenseElementsAttr.get` of those of {large_bytes:,} bytes or more, into a new context.
  `read the bytecode` is `ir.Module.parse` of what lowering writes, verified, `parse the text` the
  same of the text, and `write bytecode` MLIR's own writer.
- **C++ XlaBuilder**, or C++: `xla_client.ops` of an old jaxlib, called from Python, gives an HLO
  proto; `convert to MLIR` is `xla_computation_to_mlir_module`.
- Memory is measured in processes of their own. `recorded` is what Python allocates for the ops
  (tracemalloc); `with module` is how much the process grows by recording and lowering, with what
  MLIR allocates.
"""

_PLOTS: Final = {
    "scaling": """\
![Time against size, both logarithmic](performance/scaling_chain.svg)

![Time for an op against size](performance/scaling_chain_op.svg)
""",
    "graphs": "![Microseconds an op of each graph](performance/graphs.svg)\n",
}

_PROSE: Final = {
    "graphs": """\
## Graphs

Each of about 10,000 ops or more. The `constants` hold 100 MB of data: what an op takes there is the
time for its 10 KB, and of the budget only what compares with others is held against it.
""",
    "scaling": """\
## From ten ops to a million

The elementwise chain at growing sizes. Straight lines are linear; what a module costs at all,
however small, shows at the left. Nothing recurses over the graph, on any of the ways measured.
""",
    "end_to_end": """\
## From the first op to the first result

Most of the time is XLA's compilation, which is shown apart. Both sides compile the same function
for the same platform, from modules that are not the same text. For jax, `record` is the trace. The
run is the first one, with NumPy arrays, and is waited for. All times here are of few rounds, as
many as the quartiles stand for.
""",
    "cold": """\
## The first build in a fresh process

What the processor works in a process that has imported NumPy alone, until a graph is lowered: the
imports of xlabuilder and of jax, which it builds on, or those of jax alone; recording, or for jax
the trace; lowering. Python's compiled modules are on disk already. All else that a process does
once is part of it: contexts of MLIR, and caches of shapes, of signatures and of primitives.
""",
    "imports": """\
## Imports

In fresh processes: what `import builder` takes where NumPy is imported, and `import lowering` where
jax is. The second column is held against the budget.
""",
    "packing": """\
## Arrays and their buffers

What `layout.pack` and `layout.unpack` take for an array, beside one `numpy.copyto` of the same
bytes, to an array that is there and to a new one, whose pages the system has to give first. Those
two make a new one as well. All are of one thread.
""",
    "dispatch": """\
## Calls

What passes before a call comes back, in microseconds: `ours` of what `lowering.compile` gives,
`lowering.jit` of the function that it was given, and `jax.jit` of the same function. The programs
add arrays of 4x4 floats; all that is checked (number, sizes, types, device, layout) is checked. The
arguments are arrays of the device, or NumPy arrays, which have to be copied there: ours copies them
before the call comes back, so that the caller may write to them, and jax need not. Rows on several
devices are replicas with sharded results, beside `jax.shard_map` under jit.
""",
}

_NEW_SHAPES: Final = """\
In `shapes` every op has a shape that the process has never seen, so that the caches of shapes and
signatures never help; each round builds it with shapes of its own. In the other graphs all but the
first ops of a kind find theirs there, as in most programs. So of the budget only what compares with
others is held against `shapes`.
"""

_BUDGET: Final = """\
## The budget

What was promised for graphs of each kind with about 10,000 ops ({large:,} at least), and whether
the figures of this run keep it. A figure that doesn't says so; the others do.
"""


_OUT_OF_REACH: Final = """\
## What is out of reach, and why

The promises that are not kept, each beside others that do the same or a part of it, in microseconds
an op. Reading, writing and copying in MLIR are parts of what we do: where one of these alone is
more than was allowed, the promise is out of reach as long as MLIR is what it is. Where all that
stands beside is less, nothing measured here stands against the promise, and what is missing is
ours.
"""

_BESIDE: Final = """\
- `create + verify` is `ir.Operation.create` for each operation with everything at hand, and the
  verifier. Lowering doesn't go that way: it writes bytecode itself, and MLIR reads and verifies
  that. So its own floor is `read the bytecode`. {lowered}
- `write bytecode` is MLIR's own writer. Ours adds a checksum to what it wrote.
- `record, collector off` leaves out what Python's garbage collector takes to walk over the ops that
  are there; `collect as many objects` is what it takes of making as many bare objects, with a tuple
  each. Together they are the least that recording can take. {collected}
- Constants are copied into MLIR, whoever builds the module. {copied}
"""


def _out_of_reach(figures: dict[str, Any]) -> str | None:
    """The section on promises that aren't kept; None if all are."""
    reasons = out_of_reach.reasons(figures)
    if not reasons:
        return None
    said = {
        "lowered": out_of_reach.lowered(figures),
        "collected": out_of_reach.collected(figures),
        "copied": out_of_reach.copied(figures),
    }
    beside = _BESIDE.format(**{key: text or "" for key, text in said.items()})
    bullets = [
        textwrap.fill(f"- {bullet}", 100, subsequent_indent="  ", break_on_hyphens=False)
        for bullet in beside.removeprefix("- ").split("\n- ")
    ]
    parts = [_OUT_OF_REACH, "\n".join(bullets) + "\n"]
    parts += [f"{promise}:\n\n{markdown(table)}" for promise, table in reasons if table.rows]
    alone = [promise for promise, table in reasons if not table.rows]
    if alone:
        parts.append("Nothing was measured beside these:\n")
        parts.append("".join(f"- {promise}\n" for promise in alone))
    return "\n".join(parts)


def _compiled(figures: dict[str, Any]) -> str:
    """Whether the compilation of either side is longer, as far as the rounds can tell."""
    said = []
    for entry in figures["end_to_end"]:
        ours, theirs = (entry["ms"][who]["compile"] for who in ("ours", "jax"))
        figure = (
            f"- {entry['graph']}, {entry['ops']:,} ops: {ours['median']:,.0f} ms of "
            f"{ours['rounds']} rounds, jax {theirs['median']:,.0f} ms of {theirs['rounds']}: "
        )
        if min(ours["rounds"], theirs["rounds"]) < _TELLING:
            verdict = "too few rounds to tell them apart"
        elif ours["low"] <= theirs["high"] and theirs["low"] <= ours["high"]:
            verdict = "the quartiles overlap, so that these figures don't tell them apart"
        else:
            longer = "ours" if ours["median"] > theirs["median"] else "jax's"
            verdict = f"the quartiles lie apart, and {longer} is longer"
        said.append(f"{figure}{verdict}\n")
    return f"Compilation:\n\n{''.join(said)}"


_TELLING: Final = 3
"""From how many rounds on quartiles are compared."""


def _conditions(figures: dict[str, Any]) -> str:
    machine, peer = figures["machine"], figures["peer"]
    memory = machine["memory_bytes"]
    rows = {
        "machine": f"{machine['processor']}, {machine['cores']} cores"
        + (f", {memory / 2**30:.0f} GiB" if memory else "")
        + f"; {machine['system']}",
        "versions": ", ".join(f"{name} {version}" for name, version in figures["versions"].items()),
        "C++ XlaBuilder": "not measured"
        if peer is None
        else ", ".join(f"{name} {version}" for name, version in peer.items()),
        "date": figures["date"] + (" (a quick run: rough)" if figures["quick"] else ""),
    }
    lines = ["| | |\n| --- | --- |\n", *(f"| {name} | {text} |\n" for name, text in rows.items())]
    return "".join(lines).rstrip("\n")


def _shared(figures: dict[str, Any]) -> str:
    """Of which graphs fewer ops are recorded than are written."""
    said = "; ".join(
        f"{entry['recorded']:,} of the {entry['ops']:,} ops of {name}"
        for name, entry in figures.get("graphs", {}).items()
        if entry["recorded"] < entry["ops"]
    )
    return f" ({said})" if said else ""


def report_text(figures: dict[str, Any], docs: Path = DOCS) -> str:
    """The page; the figures of GPUs are those in the folder `performance` of `docs`."""
    from benchmarks.contenders import LARGE_BYTES
    from benchmarks.guard import ALLOWED_LOSS

    sections = [
        _INTRODUCTION.format(conditions=_conditions(figures), allowed=round(ALLOWED_LOSS * 100)),
        "\n".join([_BUDGET.format(large=budget.LARGE), *map(markdown, budget_tables(figures))]),
    ]
    unkept = _out_of_reach(figures)
    if unkept is not None:
        sections.append(unkept)
    for part, make in PARTS.items():
        if part not in figures:
            continue
        tables = make(figures)
        parts = [_PROSE[part], *([_PLOTS[part]] if part in _PLOTS else [])]
        for table in tables:
            # The heading says it where there is one table.
            heading = f"{table.title}:\n\n" if len(tables) > 1 else ""
            parts.append(heading + markdown(table))
        if part == "graphs" and "shapes" in figures["graphs"]:
            parts.insert(1, _NEW_SHAPES)
        if part == "end_to_end":
            parts.append(_compiled(figures))
        sections.append("\n".join(parts))
    sections.append(gpu_section(docs / "performance"))
    missing = missing_table(figures)
    if missing.rows:
        sections.append("## Not measured\n\n" + markdown(missing))
    sections.append(
        _METHOD.format(rounds=figures["rounds"], large_bytes=LARGE_BYTES, shared=_shared(figures))
    )
    return "\n".join(sections)


def write_report(figures: dict[str, Any], docs: Path) -> None:
    """Writes performance.md, and into the folder `performance` beside it the plots and figures."""
    # All that can fail comes first: figures that can't be told replace nothing.
    text = report_text(figures, docs)
    write_plots(figures, docs / "performance")
    page = docs / "performance.md"
    need_writable(page)
    write_figures(figures, docs / "performance" / "figures.json")
    replace(page, text)
