"""The command line: python -m benchmarks NAME..., python -m benchmarks check, ... report FILE."""

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
    need_folder,
    need_writable,
    new_figures,
    read_figures,
    write_figures,
)
from benchmarks.graphs import GRAPHS, Graph
from benchmarks.peer_process import PeerProcess
from benchmarks.timing import ContenderError

__all__ = ["main"]

# What needs jax is imported when it is measured: --help and a wrong name are answered at once.

PARTS: Final = ("graphs", "scaling", "end_to_end", "cold", "imports", "packing", "dispatch")
SCALED: Final = "chain"

_DESCRIPTION: Final = f"""\
Measures how fast graphs are recorded and lowered, beside jax.jit and others.

NAME is a graph ({", ".join(GRAPHS)}) or a group:
  graphs      all of them, each at the size that gives about 10,000 ops
  scaling     {SCALED} from 10 to 1,000,000 ops
  end_to_end  from the first op to the first result
  cold        the first build in a fresh process, imports included
  imports     import builder, import lowering
  packing     arrays packed into the buffers of layouts, beside one copy
  dispatch    calls of compiled computations, beside jax.jit's
  all         everything

Two more commands: `check` compares ratios with benchmarks/ratios.json, `report FILE` writes
docs/performance.md from figures; each has --help."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong on one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


class _Pace:
    """Rounds, seconds and sizes: a whole run takes minutes, a quick one about one."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self.rounds = 3 if quick else 9
        self.seconds = 0.5 if quick else 3.0
        self.scaling_seconds = 0.5 if quick else 6.0
        self.largest = 1_000 if quick else None
        self.compile_seconds = 1.0 if quick else 30.0
        self.import_rounds = 3 if quick else 11
        self.packing_seconds = 1.0 if quick else 5.0
        self.dispatch_rounds = 5 if quick else 25
        self.dispatch_seconds = 0.5 if quick else 5.0

    def size(self, graph: Graph) -> int:
        """How large a graph is measured that stands alone."""
        if not self.quick:
            return graph.default
        return max((s for s in graph.sizes if s <= graph.default // 5), default=graph.sizes[0])


def _nothing() -> None:
    pass


def main(
    arguments: Sequence[str] | None = None, *, before_graphs: Callable[[], object] = _nothing
) -> int:
    """Runs the command line.

    Args:
        arguments: the words; if there are none, those that the program was called with.
        before_graphs: called before graphs are measured. What it changes about the process stays:
            what isn't to be measured so is measured before.

    Returns:
        The exit status.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["check"]:
            return _check(words[1:], before_graphs)
        if words[:1] == ["report"]:
            return _report(words[1:])
        return _measure(words, before_graphs)
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


def _need_known(parser: argparse.ArgumentParser, names: Sequence[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(known)}")


def _measure(words: Sequence[str], before_graphs: Callable[[], object]) -> int:
    parser = _Parser(
        prog="python -m benchmarks",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="a graph or a group")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="also write plots (SVG) there")
    parser.add_argument(
        "--peer-python",
        metavar="PATH",
        help="a Python 3.11 with jaxlib 0.4.30 or 0.6.0, which have the C++ XlaBuilder",
    )
    parser.add_argument("--rounds", type=_positive, metavar="N", help="rounds at most")
    parser.add_argument("--size", type=_positive, metavar="N", help="the size of every graph named")
    parser.add_argument("--quick", action="store_true", help="about a minute, and rough")
    parser.add_argument(
        "--modules", action="store_true", help="with imports: list the modules that take longest"
    )
    options = parser.parse_args(words)
    _need_known(parser, options.names, [*GRAPHS, *PARTS, "all"])
    # What can't be written had better be known before minutes of measuring.
    for option, path, need in (
        ("--json", options.json, need_writable),
        ("--plots", options.plots, need_folder),
    ):
        if path is not None:
            try:
                need(path)
            except FiguresError as error:
                parser.error(f"{option}: {error}")
    with contextlib.ExitStack() as stack:
        peer: PeerProcess | None = None
        if options.peer_python is not None:
            try:
                peer = stack.enter_context(PeerProcess(options.peer_python))
            except ContenderError as error:
                parser.error(f"--peer-python: {error}")
        figures = _run(options, peer, before_graphs)
    _print(figures)
    if options.json is not None:
        write_figures(figures, options.json)
    if options.plots is not None:
        from benchmarks.plots import write_plots

        write_plots(figures, options.plots)
    return 0


def _run(
    options: argparse.Namespace, peer: PeerProcess | None, before_graphs: Callable[[], object]
) -> dict[str, Any]:
    """Measures all that was asked for."""
    names = set(options.names)
    if "all" in names:
        names |= set(PARTS)
    graphs = [name for name in GRAPHS if name in names or "graphs" in names]
    pace = _Pace(quick=options.quick)
    rounds = options.rounds or pace.rounds
    figures = new_figures(
        rounds=rounds, quick=options.quick, peer=None if peer is None else peer.versions
    )
    from benchmarks.end_to_end import PAIRS, measure_end_to_end
    from benchmarks.imports import measure_imports
    from benchmarks.measuring import Effort, measure_graph, measure_scaling

    effort = Effort(rounds, pace.seconds)
    with _progress(len(graphs) + len(names & set(PARTS) - {"graphs"})) as (tell, done):
        # First: processes that are begun by one full of modules take twice as long.
        if "imports" in names:
            count = options.rounds or pace.import_rounds
            figures["imports"] = measure_imports(count, tell, modules=options.modules)
            done()
        if "cold" in names:
            from benchmarks.cold import PAIRS as COLD_PAIRS, measure_cold

            cold: Sequence[tuple[str, int]] = COLD_PAIRS[:1] if options.quick else COLD_PAIRS
            if options.size:
                cold = [(name, options.size) for name, _ in cold]
            figures["cold"] = measure_cold(
                cold, rounds=options.rounds or pace.import_rounds, tell=tell
            )
            done()
        if "packing" in names:
            from benchmarks.packing import ELEMENTS, measure_packing

            elements = options.size or (ELEMENTS // 10 if options.quick else ELEMENTS)
            figures["packing"] = measure_packing(
                elements, rounds=rounds, seconds=pace.packing_seconds, tell=tell
            )
            done()
        before_graphs()
        for name in graphs:
            size = options.size or pace.size(GRAPHS[name])
            entry = measure_graph(GRAPHS[name], size, effort, peer, tell)
            figures.setdefault("graphs", {})[name] = entry
            done()
        if "scaling" in names:
            largest = options.size or pace.largest
            effort = Effort(rounds, pace.scaling_seconds, largest)
            entries = measure_scaling(GRAPHS[SCALED], effort, peer, tell)
            figures["scaling"] = {SCALED: entries}
            done()
        if "end_to_end" in names:
            pairs: Sequence[tuple[str, int]] = PAIRS[:1] if options.quick else PAIRS
            if options.size:
                pairs = [(name, options.size) for name, _ in pairs]
            figures["end_to_end"] = measure_end_to_end(
                pairs, rounds=rounds, seconds=pace.compile_seconds, tell=tell
            )
            done()
        if "dispatch" in names:
            from benchmarks.dispatch import COUNTS, measure_dispatch

            figures["dispatch"] = measure_dispatch(
                [(options.size, options.size)] if options.size else COUNTS,
                rounds=options.rounds or pace.dispatch_rounds,
                seconds=pace.dispatch_seconds,
                tell=tell,
            )
            done()
        if names & {"end_to_end", "dispatch"}:
            from benchmarks.machine import accelerator

            device = accelerator()
            if device is not None:
                figures["machine"]["device"] = device
    return figures


@contextlib.contextmanager
def _progress(count: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """A line on stderr that says what is measured now; nothing where stderr is no terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # Refreshed when there is something to tell, not by a thread, which would be measured too.
    with Progress(
        *columns,
        console=console,
        auto_refresh=False,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("", total=count)

        def tell(what: str) -> None:
            progress.update(task, description=what, refresh=True)

        yield tell, lambda: progress.update(task, advance=1, refresh=True)


def _console() -> Console:
    console = Console()
    # A file or a pipe has no width: tables get the one they need.
    return console if console.is_terminal else Console(width=240)


def _print(figures: dict[str, Any]) -> None:
    from benchmarks.tables import show, tables_of

    console = _console()
    machine, versions = figures["machine"], figures["versions"]
    console.print(
        f"{machine['processor']}, {machine['cores']} cores; "
        + (f"{machine['device']}; " if "device" in machine else "")
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + f"; medians of up to {figures['rounds']} rounds",
        highlight=False,
    )
    for table in tables_of(figures):
        show(table, console)


def _check(words: Sequence[str], before_graphs: Callable[[], object]) -> int:
    parser = _Parser(
        prog="python -m benchmarks check",
        description="Compares ratios with those of benchmarks/ratios.json; fails on a loss.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a graph or cold; all if none is named"
    )
    parser.add_argument("--update", action="store_true", help="write the ratios measured now")
    parser.add_argument("--file", type=Path, metavar="FILE", help="another file of ratios")
    parser.add_argument(
        "--size",
        type=_positive,
        metavar="N",
        help="with --update: the size of every graph; else it must be that of the ratios",
    )
    options = parser.parse_args(words)
    from benchmarks.guard import GUARDED, RATIOS_FILE, check

    _need_known(parser, options.names, list(GUARDED))

    before_graphs()
    with _progress(0) as (tell, _):
        return check(
            options.file or RATIOS_FILE,
            _console(),
            tell,
            names=options.names,
            size=options.size,
            update=options.update,
        )


def _report(words: Sequence[str]) -> int:
    parser = _Parser(
        prog="python -m benchmarks report",
        description="Writes docs/performance.md and docs/performance/ from the figures in a file.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="what --json wrote")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="another folder than docs")
    options = parser.parse_args(words)
    from benchmarks.report import DOCS, write_report

    write_report(read_figures(options.file), options.docs or DOCS)
    return 0
