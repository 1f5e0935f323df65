"""Measure a graph: the times of every step, ratios, memory.

    python -m benchmarks.measuring GRAPH SIZE ROUNDS SECONDS NUMBER (all|large) [PEER-PYTHON]

This measures a graph in a fresh process, and prints a line of JSON. The places of objects in memory
differ between processes, and with them the times, by several percent. So each graph is measured in
several processes, whose measurements count together.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.graphs import GRAPHS, Graph
from benchmarks.memory import measure_memory
from benchmarks.peer_process import PeerProcess
from benchmarks.steps import ratios_of
from benchmarks.timing import ContenderError, in_turns, keep_freed_memory, spread

__all__ = ["Effort", "measure_graph", "measure_scaling"]

ROOT: Final = Path(__file__).resolve().parent.parent


class Effort(NamedTuple):
    """How long to measure.

    Attributes:
        processes: the maximum number of processes that measure a graph, one after another.
        rounds: the maximum number of rounds in all processes together.
        seconds: the time after which a process leaves a contender out of further rounds.
    """

    processes: int
    rounds: int
    seconds: float


def measure_graph(
    graph: Graph,
    size: int,
    effort: Effort,
    peer_python: str | None,
    on_progress: Callable[[str], None],
    *,
    large: bool = False,
) -> dict[str, Any]:
    """Measure a graph at one size.

    Args:
        graph: a graph of GRAPHS.
        size: its size.
        effort: how long to measure.
        peer_python: the interpreter with the C++ XlaBuilder, or None.
        on_progress: called with a description of each measurement.
        large: whether to measure only the steps that are measured up to a million ops; excludes
            memory.

    Returns:
        An entry of "graphs", as documented in `benchmarks/figures.py`.
    """
    seconds: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    processes = min(effort.processes, effort.rounds)
    for number in range(processes):
        on_progress(f"{graph.name} {size:,}: process {number + 1} of {processes}")
        # The first processes measure one round more if the rounds can't be divided evenly.
        rounds = (effort.rounds + processes - 1 - number) // processes
        options = (size, rounds, effort.seconds, number, "large" if large else "all")
        measured = _in_a_process(graph.name, *options, *([peer_python] if peer_python else []))
        counts = measured["counts"]
        missing |= measured["missing"]
        for step, values in measured["seconds"].items():
            seconds.setdefault(step, []).extend(values)
    us = {
        step: spread([time / counts["ops"] * 1e6 for time in times])
        for step, times in seconds.items()
    }
    entry: dict[str, Any] = {
        "title": graph.title,
        "size": size,
        **counts,
        "us": us,
        "ratios": ratios_of({step: values["median"] for step, values in us.items()}),
        "missing": missing,
    }
    if not large:
        on_progress(f"{graph.name} {size:,}: memory")
        memory = measure_memory(graph.name, size)
        ours, theirs = memory["ours"], memory["jax"]
        recorded = counts["recorded"]  # a shared computation takes its memory once
        entry["memory"] = {
            "recorded_bytes": ours["recorded"] / recorded,
            "with_module_bytes": ours["grown"] / recorded,
            "peak_bytes": ours["peak"],
            "jax_bytes": theirs["grown"] / recorded,
            "jax_peak_bytes": theirs["peak"],
        }
    return entry


def measure_scaling(
    graph: Graph,
    largest: int | None,
    effort: Effort,
    peer_python: str | None,
    on_progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Measure a graph at each of its sizes up to `largest`, or at all of them if it is None."""
    sizes = [size for size in graph.sizes if largest is None or size <= largest]
    return [
        measure_graph(graph, size, effort, peer_python, on_progress, large=True)
        for size in sizes or [graph.sizes[0]]
    ]


def _in_a_process(*arguments: object) -> dict[str, Any]:
    """Return "counts", "seconds" of each step and "missing", measured in a new process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.measuring", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def main() -> None:
    """Measure the graph that the command line names."""
    from benchmarks.contenders import contenders

    name, size_text, rounds, seconds, number, steps, *peer_python = sys.argv[1:]
    graph, size, large = GRAPHS[name], int(size_text), steps == "large"
    keep_freed_memory()
    with contextlib.ExitStack() as stack:
        peer, refused = None, {}
        if peer_python:
            try:
                peer = stack.enter_context(PeerProcess(*peer_python))
            except ContenderError as error:
                refused["xla_builder"] = str(error)
        if size != graph.sizes[0]:
            # Excludes imports, and filling the contexts and the caches of primitives.
            warm_up, _ = contenders(graph, graph.sizes[0], peer, large=large)
            in_turns(warm_up, rounds=1, seconds=0)
        rounds_of, counts = contenders(graph, size, peer, large=large)
        # The order of the first round alternates from process to process.
        times, missing = in_turns(
            rounds_of, rounds=int(rounds), seconds=float(seconds), reverse=int(number) % 2 == 1
        )
    print(json.dumps({"counts": counts, "seconds": times, "missing": missing | refused}))


if __name__ == "__main__":
    main()
