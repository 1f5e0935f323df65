"""The command line: `python -m benchmarks NAME...`, and its commands `check` and `report FILE`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.figures import (
    FiguresError,
    check_folder,
    check_writable,
    new_figures,
    read_figures,
    write_figures,
)
from benchmarks.graphs import GRAPHS, Graph
from benchmarks.peer_process import PeerProcess
from benchmarks.timing import ContenderError

__all__ = ["main"]

# Modules that need jax are imported where they are used, so that --help and errors are immediate.

PARTS: Final = (
    "graphs",
    "scaling",
    "end_to_end",
    "cold",
    "imports",
    "packing",
    "dispatch",
    "library",
    "operands",
    "interop",
    "derivatives",
    "serving",
    "tools",
    "scale",
)
_ON_DEVICE: Final = frozenset(
    ("end_to_end", "dispatch", "library", "operands", "interop", "derivatives", "serving")
)
"""The parts that run programs on the device."""
SCALED: Final = "chain"

_DESCRIPTION: Final = f"""\
Measures how fast graphs are recorded and lowered, compared with jax.jit and others.

NAME is a graph ({", ".join(GRAPHS)}) or a group:
  graphs      all graphs, each at the size with about 10,000 ops
  scaling     {SCALED} from 10 to 1,000,000 ops
  end_to_end  from the first op to the first result
  cold        the first build in a fresh process, imports included
  imports     import builder, import lowering
  packing     packing arrays into the buffers of layouts, compared with a copy
  dispatch    calls of compiled computations, compared with jax.jit's
  library     functions of builder.lib, compared with jax's
  operands    functions of builder.lib whose small operands the program computes
  interop     computations inside jax, and recorded gradients
  derivatives gradients of training steps, compared with jax.grad's
  serving     threads that call one executable, and the start of a saved one
  tools       the text of a table, compare, saving a large module
  scale       a sharded program on 8, 64 and 512 virtual CPU devices
  all         all of these

Other commands: `check` compares ratios with benchmarks/ratios.json; `report FILE` writes
docs/performance.md from figures. Each has --help."""


class _Parser(argparse.ArgumentParser):
    """Report errors on a single line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


class _Pace:
    """Rounds, seconds and sizes of a full run, which takes minutes, or of a quick one."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self.rounds = 3 if quick else 15
        self.processes = 1 if quick else 5
        self.seconds = 0.5 if quick else 2.0
        self.scaling_seconds = 0.5 if quick else 6.0
        self.largest = 1_000 if quick else None
        self.compile_seconds = 1.0 if quick else 30.0
        self.import_rounds = 3 if quick else 11
        self.packing_seconds = 1.0 if quick else 5.0
        self.dispatch_rounds = 5 if quick else 25
        self.dispatch_seconds = 0.5 if quick else 5.0
        self.library_rounds = 3 if quick else 31
        self.library_seconds = 0.1 if quick else 0.5
        self.interop_rounds = 3 if quick else 31
        self.interop_seconds = 0.5 if quick else 15.0
        self.derivatives_rounds = 3 if quick else 15
        self.derivatives_cold_rounds = 1 if quick else 5
        self.derivatives_seconds = 0.5 if quick else 15.0
        self.serving_rounds = 3 if quick else 15
        self.serving_seconds = 0.5 if quick else 10.0
        self.tools_rounds = 3 if quick else 7
        self.tools_seconds = 0.5 if quick else 10.0
        self.scale_rounds = 2 if quick else 9
        self.scale_seconds = 1.0 if quick else 20.0

    def size(self, graph: Graph) -> int:
        """Return the size at which a graph is measured, if not at all sizes."""
        if not self.quick:
            return graph.default
        return max((s for s in graph.sizes if s <= graph.default // 5), default=graph.sizes[0])


def main(
    arguments: Sequence[str] | None = None,
    *,
    before_graphs: Callable[[], object] = lambda: None,
) -> int:
    """Run the command line.

    Args:
        arguments: the arguments; by default those of the process.
        before_graphs: called after all measurements that its effect on the process would distort.

    Returns:
        The exit status.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if arguments[:1] == ["check"]:
            return _check(arguments[1:], before_graphs)
        if arguments[:1] == ["report"]:
            return _report(arguments[1:])
        return _measure(arguments, before_graphs)
    except FiguresError as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("python -m benchmarks: interrupted", file=sys.stderr)
        return 130


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


_positive.__name__ = "positive number"


def _check_names(
    parser: argparse.ArgumentParser, names: Sequence[str], known: Sequence[str]
) -> None:
    for name in names:
        if name not in known:
            parser.error(f"unknown benchmark {name!r}; choose from {', '.join(known)}")


def _measure(arguments: Sequence[str], before_graphs: Callable[[], object]) -> int:
    parser = _Parser(
        prog="python -m benchmarks",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="a graph or a group")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="also write plots (SVG)")
    parser.add_argument(
        "--peer-python",
        metavar="PATH",
        help="a Python 3.11 with jaxlib 0.4.30 or 0.6.0, which contain the C++ XlaBuilder",
    )
    parser.add_argument("--rounds", type=_positive, metavar="N", help="maximum number of rounds")
    parser.add_argument("--size", type=_positive, metavar="N", help="size of every graph named")
    parser.add_argument("--quick", action="store_true", help="rough figures in about a minute")
    parser.add_argument(
        "--modules", action="store_true", help="with imports: list the slowest modules"
    )
    options = parser.parse_args(arguments)
    _check_names(parser, options.names, [*GRAPHS, *PARTS, "all"])
    # Paths are checked first, because measuring takes minutes.
    for option, path, check in (
        ("--json", options.json, check_writable),
        ("--plots", options.plots, check_folder),
    ):
        if path is not None:
            try:
                check(path)
            except FiguresError as error:
                parser.error(f"{option}: {error}")
    peer_versions: dict[str, str] | None = None
    if options.peer_python is not None:
        try:
            with PeerProcess(options.peer_python) as peer:
                peer_versions = peer.versions
        except ContenderError as error:
            parser.error(f"--peer-python: {error}")
    figures = _run(options, peer_versions, before_graphs)
    _print(figures)
    if options.json is not None:
        write_figures(figures, options.json)
    if options.plots is not None:
        from benchmarks.plots import write_plots

        write_plots(figures, options.plots)
    return 0


def _run(
    options: argparse.Namespace,
    peer_versions: dict[str, str] | None,
    before_graphs: Callable[[], object],
) -> dict[str, Any]:
    """Measure the graphs and groups named."""
    names = {*options.names, *(PARTS if "all" in options.names else ())}
    graphs = [name for name in GRAPHS if name in names or "graphs" in names]
    pace = _Pace(quick=options.quick)
    rounds = options.rounds or pace.rounds
    peer_python = options.peer_python
    figures = new_figures(rounds=rounds, quick=options.quick, peer=peer_versions)
    from benchmarks.end_to_end import PAIRS, measure_end_to_end
    from benchmarks.imports import measure_imports
    from benchmarks.measuring import Effort, measure_graph, measure_scaling

    def graph_sizes(pairs: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
        pairs = pairs[:1] if options.quick else pairs
        return [(name, options.size or size) for name, size in pairs]

    with _progress(len(graphs) + len(names & set(PARTS) - {"graphs"})) as (on_progress, advance):
        # First, because a process with many modules takes longer to start others.
        if "imports" in names:
            count = options.rounds or pace.import_rounds
            figures["imports"] = measure_imports(count, on_progress, modules=options.modules)
            advance()
        if "cold" in names:
            from benchmarks.cold import PAIRS as COLD_PAIRS, measure_cold

            figures["cold"] = measure_cold(
                graph_sizes(COLD_PAIRS),
                rounds=options.rounds or pace.import_rounds,
                on_progress=on_progress,
            )
            advance()
        if "packing" in names:
            from benchmarks.packing import ELEMENTS, measure_packing

            figures["packing"] = measure_packing(
                options.size or (ELEMENTS // 10 if options.quick else ELEMENTS),
                rounds=rounds,
                seconds=pace.packing_seconds,
                on_progress=on_progress,
            )
            advance()
        before_graphs()
        for name in graphs:
            size = options.size or pace.size(GRAPHS[name])
            effort = Effort(pace.processes, rounds, pace.seconds)
            entry = measure_graph(GRAPHS[name], size, effort, peer_python, on_progress)
            figures.setdefault("graphs", {})[name] = entry
            advance()
        if "scaling" in names:
            largest = options.size or pace.largest
            effort = Effort(1, rounds, pace.scaling_seconds)
            entries = measure_scaling(GRAPHS[SCALED], largest, effort, peer_python, on_progress)
            figures["scaling"] = {SCALED: entries}
            advance()
        if "end_to_end" in names:
            figures["end_to_end"] = measure_end_to_end(
                graph_sizes(PAIRS),
                rounds=rounds,
                seconds=pace.compile_seconds,
                on_progress=on_progress,
            )
            advance()
        if "dispatch" in names:
            from benchmarks.dispatch import COUNTS, measure_dispatch

            figures["dispatch"] = measure_dispatch(
                [(options.size, options.size)] if options.size else COUNTS,
                rounds=options.rounds or pace.dispatch_rounds,
                seconds=pace.dispatch_seconds,
                on_progress=on_progress,
            )
            advance()
        if "library" in names:
            from benchmarks.library import functions, measuring

            # Compiling all programs takes minutes.
            programs = functions.PROGRAMS[::10] if options.quick else functions.PROGRAMS
            figures["library"] = measuring.measure_library(
                programs,
                rounds=options.rounds or pace.library_rounds,
                seconds=pace.library_seconds,
                on_progress=on_progress,
            )
            advance()
        if "operands" in names:
            from benchmarks.library import functions, operands

            programs = functions.PROGRAMS[::10] if options.quick else functions.PROGRAMS
            figures["operands"] = operands.measure_operands(
                programs,
                rounds=options.rounds or pace.library_rounds,
                seconds=pace.library_seconds,
                on_progress=on_progress,
            )
            advance()
        if "interop" in names:
            from benchmarks.interop import LAYERS, measure_interop

            figures["interop"] = measure_interop(
                layers=options.size or LAYERS,
                rounds=options.rounds or pace.interop_rounds,
                seconds=pace.interop_seconds,
                on_progress=on_progress,
            )
            advance()
        if "derivatives" in names:
            from benchmarks.derivatives import measure_derivatives

            figures["derivatives"] = measure_derivatives(
                "small" if options.quick else "full",
                rounds=options.rounds or pace.derivatives_rounds,
                cold_rounds=pace.derivatives_cold_rounds,
                seconds=pace.derivatives_seconds,
                on_progress=on_progress,
            )
            advance()
        if "serving" in names:
            from benchmarks.serving import (
                PROGRAMS as SERVED,
                STARTED,
                measure_start,
                measure_threads,
            )

            name, size = STARTED
            count = options.rounds or pace.serving_rounds
            figures["start"] = measure_start(
                name, options.size or size, rounds=count, on_progress=on_progress
            )
            figures["threads"] = measure_threads(
                SERVED, rounds=count, seconds=pace.serving_seconds, on_progress=on_progress
            )
            advance()
        if "tools" in names:
            from benchmarks.tools import FULL, QUICK, measure_tools

            figures["tools"] = measure_tools(
                QUICK if options.quick else FULL,
                rounds=options.rounds or pace.tools_rounds,
                seconds=pace.tools_seconds,
                on_progress=on_progress,
            )
            advance()
        if "scale" in names:
            from benchmarks.scale import DEVICES, measure_scale

            figures["scale"] = measure_scale(
                DEVICES[:2] if options.quick else DEVICES,
                rounds=options.rounds or pace.scale_rounds,
                seconds=pace.scale_seconds,
                on_progress=on_progress,
            )
            advance()
        if names & _ON_DEVICE:
            from benchmarks.machine import accelerator

            device = accelerator()
            if device is not None:
                figures["machine"]["device"] = device
    return figures


@contextlib.contextmanager
def _progress(count: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """Show the current measurement on stderr, if that is a terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # Refreshed explicitly: a thread that refreshes would be measured too.
    with Progress(
        *columns,
        console=console,
        auto_refresh=False,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("", total=count)

        def on_progress(description: str) -> None:
            progress.update(task, description=description, refresh=True)

        yield on_progress, lambda: progress.update(task, advance=1, refresh=True)


def _console() -> Console:
    console = Console()
    # A file or a pipe has no width limit.
    return console if console.is_terminal else Console(width=240)


def _print(figures: dict[str, Any]) -> None:
    from benchmarks.tables import all_tables, show

    console = _console()
    machine, versions = figures["machine"], figures["versions"]
    console.print(
        f"{machine['processor']}, {machine['cores']} cores; "
        + (f"{machine['device']}; " if "device" in machine else "")
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + f"; medians of up to {figures['rounds']} rounds",
        highlight=False,
    )
    for table in all_tables(figures):
        show(table, console)


def _check(arguments: Sequence[str], before_graphs: Callable[[], object]) -> int:
    parser = _Parser(
        prog="python -m benchmarks check",
        description="Compares ratios with benchmarks/ratios.json; fails if one is worse.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a graph, cold, imports, calls or processes; by default all",
    )
    parser.add_argument("--update", action="store_true", help="write the measured ratios")
    parser.add_argument("--file", type=Path, metavar="FILE", help="use another file of ratios")
    parser.add_argument(
        "--size",
        type=_positive,
        metavar="N",
        help="size of every graph; without --update it must match the file",
    )
    options = parser.parse_args(arguments)
    from benchmarks.guard import GUARDED, RATIOS_FILE, check

    _check_names(parser, options.names, GUARDED)
    before_graphs()
    with _progress(0) as (on_progress, _):
        return check(
            options.file or RATIOS_FILE,
            _console(),
            on_progress,
            names=options.names,
            size=options.size,
            update=options.update,
        )


def _report(arguments: Sequence[str]) -> int:
    parser = _Parser(
        prog="python -m benchmarks report",
        description="Writes docs/performance.md and docs/performance/ from the figures in FILE.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="figures written by --json")
    parser.add_argument(
        "--later",
        type=Path,
        metavar="FILE",
        help="figures of a later run, which replace those of the same names in the first file",
    )
    parser.add_argument(
        "--newest",
        type=Path,
        metavar="FILE",
        help="figures of a run on the newest versions, for docs/performance_newest.md",
    )
    parser.add_argument(
        "--docs", type=Path, metavar="FOLDER", help="write to FOLDER instead of docs"
    )
    options = parser.parse_args(arguments)
    from benchmarks.report import DOCS, with_later, write_report

    figures = read_figures(options.file)
    if options.later is not None:
        figures = with_later(figures, read_figures(options.later))
    newest = None if options.newest is None else read_figures(options.newest)
    write_report(figures, options.docs or DOCS, newest)
    return 0
