"""Write docs/performance.md and its plots from the figures of a run.

    python -m benchmarks report FILE
    python -m benchmarks report FILE --newest FILE

The second also writes docs/performance_newest.md, from a run on the newest Python and jax. All
numbers of the tables, and whether a target is met, come from the files. The prose is in this
module; compare its numbers with those of a new run.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import budget, unmet
from benchmarks.figures import check_writable, replace, write_figures
from benchmarks.gpus import gpu_section
from benchmarks.library.explanations import explanation_lines
from benchmarks.plots import write_plots
from benchmarks.tables import ABOVE, PARTS, budget_tables, markdown, missing_table
from tools.generated_block import with_block

__all__ = ["DOCS", "newest_text", "report_text", "with_later", "with_scale", "write_report"]

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"

_INTRODUCTION: Final = """\
# Performance

The time to record a graph, to lower it to StableHLO and to serialize it, compared with `jax.jit`,
with MLIR alone and with the C++ XlaBuilder. `python -m benchmarks report` generates this page from
the figures of one run, [figures.json](performance/figures.json). Another page has those of a run
on the [newest versions](performance_newest.md).

{conditions}

To run the benchmarks again:

```console
$ make bench
$ make bench BENCH_ARGS="all --json figures.json --peer-python PATH"
$ .venv/bin/python -m benchmarks report figures.json
```

The first command measures everything except the C++ XlaBuilder, which newer jaxlib releases no
longer contain. In the second, `--peer-python` names a Python 3.11 with jaxlib 0.4.30 or 0.6.0 and
NumPy, which runs the C++ XlaBuilder in a second process. The third writes this page and its plots.
`--quick` takes a minute; `make bench BENCH_ARGS=--help` lists all options. `make bench-check`
measures ratios only. It fails if a ratio is more than {allowed} % worse than in
[benchmarks/ratios.json](../benchmarks/ratios.json), or if a ratio in that file could not be
measured.
"""

_METHOD: Final = """\
## Method

- Each graph is defined once, in `benchmarks/graphs`. A small module for each contender
  (`benchmarks/languages`) provides the operations, so that all contenders build the same graph.
- Each graph is measured in up to five fresh processes, one after another: the places of objects in
  memory differ between processes, and with them the times, by several percent. (The sizes from ten
  ops to a million are measured in one process each.) In each process all contenders take turns;
  the order is reversed in every second round. The C++ XlaBuilder runs in a
  process of its own, which stays open and takes its turn too. Figures are medians of up to {rounds}
  rounds in all processes together, with the quartiles in parentheses. A process leaves a contender
  that has used up its time out of further rounds.
- Times are CPU times of the process (`time.process_time`), so that other processes on the machine
  do not lengthen them. From the first op to the first result, and for calls with large arrays, it
  is elapsed time, because XLA uses several threads.
- Times are divided by the number of ops of the graph as written, for every contender. The body of a
  loop or branch counts once for each op that applies it, as in the module and as the other
  contenders record it; any other computation, such as a reducer, counts once. xlabuilder records a
  function of `xb.computation` once{shared}.
  Memory is divided by the number of ops recorded. The contenders' definitions of an operation
  differ little.
- The garbage collector is enabled, as in a user's process, and runs before each measurement.
- While graphs are built, freed memory stays with the process (set by `mallopt`, where the C library
  is glibc), also in the process of the C++ XlaBuilder. Otherwise a contender would wait for pages
  that another one returned to the operating system: 100 MB of constants are 25,000 pages, which can
  take longer than the rest. The first module of a process waits for its pages once, whichever
  contender makes it. Packing is measured with the default settings, as in a user's process.
- Caches that a process fills stay filled, on both sides: those of shapes and signatures in
  xlabuilder, those of primitives in jax. Emptying jax's caches would make it slower than it is for
  its users. jax would reuse the trace of a function that it has seen, so each round passes it a new
  function.
- **ours**: `record` is the user's entire program, with the loops and calls around the ops; `lower`
  is `lowering.lower`, which verifies the module. `verify alone` is the share of MLIR's verifier,
  measured separately. The other columns are conversions of the module: bytecode, the portable
  artifact, HLO text. `record, collector off` is the same recording with Python's garbage collector
  disabled.
- **jax.jit**: `jax.jit(f).trace(...)` and `.lower()` of the same graph in `jax.lax`, without
  `jax.numpy`, which would be slower. It verifies the module as well.
- **MLIR alone**, the floor: the finished module is traversed once, and the names, types, attributes
  and locations of its operations are stored. `ir.Operation.create` is then called for each
  operation, including those in regions. Only the operands remain to be looked up. The result is
  verified. No program that creates operations one by one through MLIR's Python bindings can be
  faster. Constants are already in the context, so copying them is not included;
  `copy the constants` calls `ir.DenseElementsAttr.get` for all constants of {large_bytes:,} bytes
  or more, in a new context. `read the bytecode` is `ir.Module.parse` of the bytecode that lowering
  writes, with verification; `parse the text` is the same for the text; `write bytecode` is MLIR's
  own writer.
- **C++ XlaBuilder**, or C++: `xla_client.ops` of an old jaxlib, called from Python, which builds an
  HLO proto; `convert to MLIR` is `xla_computation_to_mlir_module`.
- Memory is measured in separate processes. `recorded` is the memory that Python allocates for the
  ops (tracemalloc); `with module` is the growth of the process during recording and lowering, which
  includes MLIR's allocations.
"""

_PLOTS: Final = {
    "scaling": """\
![Time against size, both logarithmic](performance/scaling_chain.svg)

![Time per op against size](performance/scaling_chain_op.svg)
""",
    "graphs": "![Microseconds per op of each graph](performance/graphs.svg)\n",
}

_PROSE: Final = {
    "graphs": """\
## Graphs

Each graph has about 10,000 ops or more. `constants` contains 100 MB of data: its time per op is the
time for 10 KB, so only the targets relative to other contenders apply to it.
""",
    "scaling": """\
## From ten ops to a million

The elementwise chain at increasing sizes. Straight lines mean linear time; the fixed cost of a
module shows at the left. No contender recurses over the graph.
""",
    "end_to_end": """\
## From the first op to the first result

XLA's compilation takes most of the time and is listed separately. Both sides compile the same
function for the same platform; the texts of their modules differ. For jax, `record` is the trace.
`run` is the first execution, with NumPy arrays, until the result is available. These figures come
from few rounds, listed below the table.
""",
    "cold": """\
## The first build in a fresh process

The CPU time of a process that has imported only NumPy, until a graph is lowered. It consists of
imports (xlabuilder, which lowers without jax, or jax), recording (for jax: the trace) and
lowering. Compiled Python modules are on disk already. All other one-time work of a process is
included: MLIR contexts, and caches of shapes, of signatures and of primitives.
""",
    "imports": """\
## Imports

Measured in fresh processes: `import builder` after NumPy has been imported, and `import lowering`
after jax has been imported. The budget applies to the CPU time.
""",
    "packing": """\
## Packing arrays

The time of `layout.pack` and `layout.unpack`, compared with one `numpy.copyto` of the same bytes to
an existing array and to a new one, whose pages the operating system provides first. `pack` and
`unpack` also allocate their results. All run on one thread.
""",
    "dispatch": """\
## Calls

The time until a call returns, in microseconds: `ours` is an executable of `lowering.compile`,
`lowering.jit` a function compiled by it, and `jax.jit` the same function. The programs add arrays
of 4x4 floats. All checks are included: number, sizes, element types, device and layout of the
arguments. The arguments are device arrays or NumPy arrays. xlabuilder copies NumPy arrays before
the call returns, so that the caller may modify them. jax uses arrays in place whose addresses are
multiples of 64 (`aligned`), one in four of NumPy's small arrays, and copies the others. Two arrays
of 64 MiB, not aligned, are timed until the result is available.
Rows on several devices are replicas with sharded results, compared with `jax.shard_map` under jit.
""",
    "library": """\
## Functions above the ops

The time to execute a function of `builder.lib`, divided by the time of jax's function of the same
purpose, or of the expression of a user of jax, under `jax.jit`. It is elapsed time until the result
is available; the arguments are device arrays. Small programs have about 1,000 elements, large ones
one to four million, or fewer where the function takes much longer. Functions without floating-point
types are listed under f32. The target is 1.1 times jax's time, or quartiles that overlap; functions
that miss it are marked, and listed first. `benchmarks/library/functions.py` has the expressions,
and the reason for each function that is left out.
""",
    "operands": """\
## Small operands that the program computes

XLA may fuse the computation of a value of a few elements with a loop over millions that reads it,
and then repeats the computation for each of them. The table has the functions of `builder.lib` with
an operand of at most 4,096 elements and a large result or operand: their time where the small
operands are passed, and where the program computes them, by 16 sines or 16 rounds of a hash. Values
that a function itself computes are part of its time in the table above. Functions of random numbers
derive a key from the one they get, and put an `optimization_barrier` on it. Where the ratio is
large on both sides, both programs read the user's value in the loop; `xb.optimization_barrier` on
that value avoids it.
""",
    "interop": """\
## Inside jax, and gradients

The times of a transformer of four layers, its loss and its gradients, in milliseconds. Tracing is
measured in CPU time, execution as the time until the result is available. `c` is a computation with
gradients written by hand, and the program in jax.lax has the same operations. `lowering.gradients`
derives the gradients from the recorded loss.
""",
    "derivatives": """\
## Gradients of training steps

Training steps with `lowering.gradients`, and the same steps with `jax.grad`: the loss, the
gradients and stochastic gradient descent with momentum. All times are CPU times.

- `products` is the number of matrix products and convolutions, including those of called
  computations, in the recorded program; for jax, in its StableHLO.
- `optimized` is their number in XLA's optimized program.
- `error` is the largest difference of a gradient from jax's, relative to its norm.
- `gradients` is the time of `lowering.gradients` for a loss that is recorded; for jax, the time to
  trace and to lower `jax.grad`. `cold` is the first call of it in a process.
""",
    "threads": """\
## Threads that call one executable

Eight threads call one executable of `lowering.compile`, or one function of `jax.jit`, and wait for
each result. All figures are microseconds: `throughput` is the elapsed time divided by the number of
calls of all threads; `median` and `slowest of 100` are the durations of single calls, in which a
thread also waits for the others.
""",
    "start": """\
## The start of a saved executable

The CPU time of a fresh process that has imported only NumPy, until the first result of a program
whose machine code is in a file. `import` is that of xlabuilder with jax, which runs programs, or of
jax alone. jax's file is written by `jax.experimental.serialize_executable`. In the last row
jax.jit traces, lowers and compiles the program instead, and `load` contains that.
""",
    "tools": """\
## Tools at scale

The text of all rows of a table; `lowering.compare` of two programs that differ in one op, whose ops
all have the same shape; and saving a module as bytecode and as a portable artifact. The reference
of a comparison is compiling and running both programs with the values of all ops as results, which
a comparison needs. A portable artifact is converted and written by one function of jaxlib. The last
two are processes from start to end, imports included: one records, lowers and saves one op, the
other runs the command on its file, and jax traces and lowers the same op.
""",
}

ELSEWHERE: Final = {"scale": "distributed.md"}
"""Parts whose tables are in other pages."""


_NEW_SHAPES: Final = """\
In `shapes` every op has a shape that is new to the process, so that the caches of shapes and
signatures never hit; each round builds it with new shapes. In the other graphs all but the first
ops of a kind hit the caches, as in most programs. Only the targets relative to other contenders
apply to `shapes`.
"""

_BUDGET: Final = """\
## Budget

The targets for graphs of each kind with about 10,000 ops (at least {large:,}), and the figures of
this run. Figures that miss their target are marked; the others meet it.
"""


_UNMET: Final = """\
## Unmet targets

The tables compare each unmet target with other implementations of the same step, or of a part of
the step, in microseconds per op. MLIR's reading, writing and copying are parts of xlabuilder's
steps. If one of these alone exceeds the limit, the target is out of reach with the current MLIR. If
all of them are below the limit, nothing measured here rules the target out, and the difference is
xlabuilder's own.
"""

_BOUNDS: Final = """\
## What bounds the times

The targets of some graphs are less strict than those of the others, because a part of the step that
all implementations share, or Python, takes most of the time. The list also has the causes of
targets that are missed. The tables below are in microseconds per op.

- `create + verify` is `ir.Operation.create` for each operation, with all arguments prepared, and
  the verifier. Lowering does not use it: it writes bytecode, which MLIR reads and verifies. The
  floor of lowering is therefore `read the bytecode`.
- `write bytecode` is MLIR's own writer. xlabuilder appends a checksum to its output.
- `record, collector off` excludes the time in which Python's garbage collector traverses the
  existing ops. `make as many objects`, which includes the collector, is the time in which as many
  bare objects, with a tuple each, are created.
- Targets in microseconds depend on the machine. On one day the same code imported `reducers` from a
  file in 24 and in 38 us per op, while its ratios to the other contenders changed little. The
  import has therefore a second target, relative to the floor.
- A recorder in Python that writes bytecode needs at least an object for each op, MLIR's copy of the
  constants, and MLIR's reading and verification of the module. This is the `shared` part in the
  table below, the least time of any such recorder. `own` is the rest: checks, recording and
  encoding. `left for own` is the time that the target relative to jax leaves for it.
- Where the target relative to jax is missed, the target is {to_shared:g} times the shared part.
  jax 0.12 traces `constants` and `reducers` in about two thirds of the time that 0.10 takes, so
  that a multiple of jax's time allows less than before, while MLIR's part is the same. In single
  processes with jax 0.12, the speedup was 3.7 to 4.5 for `constants` and 5.6 to 7.2 for `reducers`.
- A reduction is four operations in a module, which MLIR reads and verifies in 1.3 to 2.0 us for
  each op of `reducers`. That is half of xlabuilder's time.
- Constants are copied into MLIR by every contender that builds a module. {constants} MLIR reads a
  large constant without its elements, and its bindings set them afterwards, one constant at a time:
  in the bytecode the elements would be copied twice, which takes longer for constants of 8 KB, too.
- In `shapes`, each signature is new, and is checked rule by rule in Python, so that an error can
  name the rule. The C++ XlaBuilder checks it in compiled code, and each op again.
- On Python 3.11, reading an attribute of an op, a shape or a builder takes 15 ns more, because
  these classes have a `__getattr__`, which returns the error for a name of another library. That is
  0.1 us of recording an op and 0.15 us of lowering it. Later versions of Python do not have this
  cost.
- A packed array is new memory. A copy into new memory, whose pages the system must provide, takes
  1.1 to 2.3 times as long as a copy into memory that is used again.
- A call copies NumPy arrays, so that the caller may modify them at once. With two small arrays, the
  copies take 0.8 us, a tenth of jax.jit's time. jaxlib copies these copies again, which takes 0.6
  us with jax 0.10 and 1.8 with 0.12, unless their addresses are multiples of 64. To find such
  memory for a small array takes longer. jax.jit copies arrays that are not aligned as well, so only
  where it uses the arrays in place, the target is 1.5 times its time. Arrays from 1 MiB on are
  copied once. The first call with NumPy arrays after one with arrays on the device also contains
  jaxlib's look-up of the caller's arrays.
- `import builder` took 29 ms on Python 3.11 and 34 on 3.13 (the medians of eleven processes) while
  the machine imported NumPy in 54 ms. Reading 78 modules takes more than a quarter of the time,
  and finding them a twentieth; 20 named tuples and 18 enumerations take a tenth. The rest is the
  definitions of 121 opcodes.
- A saved executable starts later than one that jax has serialized, because the process imports
  `lowering` in addition to jax, and because the file is checked before jaxlib reads it.
- A process with 512 virtual devices has 1,800 threads. Most steps for a program take longer in it,
  those of jax too, which do not depend on the number of devices either.
"""

_MIN_ROUNDS: Final = 3
"""The least number of rounds for which quartiles are compared."""


def _bounds_section(figures: dict[str, Any]) -> str:
    """Return the section on the steps that bound the targets."""
    text, _, notes = _BOUNDS.partition("\n- ")
    notes = notes.format(constants=unmet.constants_note(figures) or "", to_shared=budget.TO_SHARED)
    tables = [
        unmet.shared_table(figures),
        unmet.lowering_table(figures),
        unmet.collector_table(figures),
    ]
    shown = [f"{table.title}:\n\n{markdown(table)}" for table in tables if table.rows]
    return "\n".join([text, _bullets(notes.strip().split("\n- ")), *shown])


def _unmet_section(figures: dict[str, Any]) -> str | None:
    """Return the section on unmet targets; None if all are met."""
    comparisons = unmet.comparisons(figures)
    if not comparisons:
        return None
    parts = [_UNMET]
    parts += [f"{table.title}:\n\n{markdown(table)}" for table in comparisons if table.rows]
    alone = [table.title for table in comparisons if not table.rows]
    if alone:
        parts.append("No comparable step was measured for these:\n")
        parts.append("".join(f"- {target}\n" for target in alone))
    return "\n".join(parts)


def _compilation_note(figures: dict[str, Any]) -> str:
    """Return which side compiles longer, where there are enough rounds to decide."""
    lines = []
    for entry in figures["end_to_end"]:
        ours, theirs = (entry["ms"][side]["compile"] for side in ("ours", "jax"))
        if min(ours["rounds"], theirs["rounds"]) < _MIN_ROUNDS:
            verdict = "too few rounds to compare"
        elif ours["low"] <= theirs["high"] and theirs["low"] <= ours["high"]:
            verdict = "the quartiles overlap, so the figures do not differ significantly"
        else:
            slower = "xlabuilder" if ours["median"] > theirs["median"] else "jax"
            verdict = f"the quartiles do not overlap; {slower} takes longer"
        lines.append(
            f"- {entry['graph']}, {entry['ops']:,} ops: {ours['median']:,.0f} ms in "
            f"{ours['rounds']} rounds, jax {theirs['median']:,.0f} ms in {theirs['rounds']}: "
            f"{verdict}\n"
        )
    return f"Compilation:\n\n{''.join(lines)}"


def _library_note(figures: dict[str, Any]) -> str:
    """Return the causes of the times above the target."""
    lines = explanation_lines(figures["library"])
    if not lines:
        return "No function misses the target.\n"
    return f"The functions that miss the target:\n\n{_bullets(lines)}"


def _bullets(items: Sequence[str]) -> str:
    """Return a list in Markdown."""
    texts = (f"- {' '.join(item.split())}" for item in items)
    lines = (
        textwrap.fill(text, 100, subsequent_indent="  ", break_on_hyphens=False) for text in texts
    )
    return "\n".join(lines) + "\n"


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


def _shared_ops(figures: dict[str, Any]) -> str:
    """Return the numbers of recorded and written ops of graphs that share recorded ops."""
    counts = "; ".join(
        f"{entry['recorded']:,} of the {entry['ops']:,} ops of {name}"
        for name, entry in figures.get("graphs", {}).items()
        if entry["recorded"] < entry["ops"]
    )
    return f" ({counts})" if counts else ""


def with_later(figures: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return figures with the parts of a later run, and the conditions of these parts."""
    conditions = {
        "date": later["date"],
        "processor": later["machine"]["processor"],
        "versions": later["versions"],
    }
    parts = [part for part in PARTS if part in later]
    of_parts = {**figures.get("later", {}), **dict.fromkeys(parts, conditions)}
    return {**figures, **{part: later[part] for part in parts}, "later": of_parts}


def _later_note(figures: dict[str, Any], part: str) -> str:
    """Return the conditions of a part that was measured in another run; "" otherwise."""
    conditions = figures.get("later", {}).get(part)
    if conditions is None:
        return ""
    versions = ", ".join(f"{name} {version}" for name, version in conditions["versions"].items())
    where = f"on {conditions['date']}, on {conditions['processor']}, with {versions}"
    return f"Measured in another run, {where}.\n"


def report_text(figures: dict[str, Any], docs: Path = DOCS) -> str:
    """Return the page. Figures of GPUs are read from the folder `performance` in `docs`."""
    from benchmarks.contenders import LARGE_BYTES
    from benchmarks.guard import ALLOWED_LOSS

    sections = [
        _INTRODUCTION.format(conditions=_conditions(figures), allowed=round(ALLOWED_LOSS * 100)),
        "\n".join([_BUDGET.format(large=budget.LARGE), *map(markdown, budget_tables(figures))]),
    ]
    unmet_section = _unmet_section(figures)
    if unmet_section is not None:
        sections.append(unmet_section)
    if "graphs" in figures:
        sections.append(_bounds_section(figures))
    for part, make_tables in PARTS.items():
        if part not in figures or part in ELSEWHERE:
            continue
        tables = make_tables(figures)
        parts = [_PROSE[part], *([_PLOTS[part]] if part in _PLOTS else [])]
        note = _later_note(figures, part)
        if note:
            parts.append(note)
        for table in tables:
            # A single table needs no title below the section's heading.
            title = f"{table.title}:\n\n" if len(tables) > 1 else ""
            parts.append(title + markdown(table))
        if part == "graphs" and "shapes" in figures["graphs"]:
            parts.insert(1, _NEW_SHAPES)
        if part == "end_to_end":
            parts.append(_compilation_note(figures))
        if part == "library":
            parts.append(_library_note(figures))
        sections.append("\n".join(parts))
    sections.append(gpu_section(docs / "performance"))
    missing = missing_table(figures)
    if missing.rows:
        sections.append("## Not measured\n\n" + markdown(missing))
    method = _METHOD.format(
        rounds=figures["rounds"], large_bytes=LARGE_BYTES, shared=_shared_ops(figures)
    )
    return "\n".join([*sections, method])


_NEWEST: Final = """\
# Performance on the newest versions

The figures of a run on the newest versions of Python and jax,
[newest.json](performance/newest.json). [Performance](performance.md) explains the tables, and how
they are measured. Of the functions of the library, those that miss the target are listed.

{conditions}

{budget}
"""


def newest_text(figures: dict[str, Any]) -> str:
    """Return the page of a run on the newest versions."""
    budget_section = "\n".join(["## Budget\n", *map(markdown, budget_tables(figures))])
    shared = unmet.shared_table(figures)
    budget_section += f"\n{shared.title}:\n\n{markdown(shared)}"
    sections = [_NEWEST.format(conditions=_conditions(figures), budget=budget_section).rstrip("\n")]
    for part, make_tables in PARTS.items():
        if part not in figures or part in ELSEWHERE:
            continue
        parts = [f"{_PROSE[part].partition(chr(10))[0]}\n"]
        note = _later_note(figures, part)
        if note:
            parts.append(note)
        for table in make_tables(figures):
            rows = table.rows
            if part == "library":
                table.rows = [row for row in rows if any(ABOVE in cell for cell in row)]
                parts.append(f"{len(rows)} functions were measured.\n")
            parts.append(f"{table.title}:\n\n{markdown(table)}")
        if part == "library":
            parts.append(_library_note(figures))
        sections.append("\n".join(parts))
    return "\n\n".join(section.rstrip("\n") for section in sections) + "\n"


def with_scale(text: str, figures: dict[str, Any]) -> str:
    """Return the text of distributed.md with the table of "scale" in the figures."""
    content = "Not measured.\n"
    if "scale" in figures:
        note = _later_note(figures, "scale") or f"{_conditions(figures)}\n"
        content = "\n".join([note, *map(markdown, PARTS["scale"](figures))])
    return with_block(text, "python -m benchmarks report", content)


def write_report(figures: dict[str, Any], docs: Path, newest: dict[str, Any] | None = None) -> None:
    """Write performance.md, and its plots and figures to the folder `performance` beside it.

    The table of "scale" is written to distributed.md, if this page is in the folder. The figures
    `newest`, of a run on the newest versions, are written to performance_newest.md.
    """
    # Everything that can fail runs first, so that invalid figures replace no file.
    text = report_text(figures, docs)
    newest_page = None if newest is None else newest_text(newest)
    distributed = docs / "distributed.md"
    if distributed.exists():
        scale = with_scale(distributed.read_text(encoding="utf-8"), figures)
        replace(distributed, scale)
    write_plots(figures, docs / "performance")
    page = docs / "performance.md"
    check_writable(page)
    write_figures(figures, docs / "performance" / "figures.json")
    replace(page, text)
    if newest is not None and newest_page is not None:
        write_figures(newest, docs / "performance" / "newest.json")
        replace(docs / "performance_newest.md", newest_page)
