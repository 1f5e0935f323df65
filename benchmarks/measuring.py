"""Measure a graph: the times of every step, ratios, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.contenders import contenders
from benchmarks.graphs import Graph
from benchmarks.memory import measure_memory
from benchmarks.peer_process import PeerProcess
from benchmarks.steps import ratios_of
from benchmarks.timing import in_turns, spread

__all__ = ["Effort", "measure_graph", "measure_scaling"]


class Effort(NamedTuple):
    """How long to measure.

    Attributes:
        rounds: the maximum number of rounds.
        seconds: the time after which a contender is left out of further rounds of a graph.
    """

    rounds: int
    seconds: float


def measure_graph(
    graph: Graph,
    size: int,
    effort: Effort,
    peer: PeerProcess | None,
    on_progress: Callable[[str], None],
    *,
    large: bool = False,
) -> dict[str, Any]:
    """Measure a graph at one size.

    Args:
        graph: the graph.
        size: its size.
        effort: how long to measure.
        peer: the C++ XlaBuilder, or None.
        on_progress: called with a description of each measurement.
        large: whether to measure only the steps that are measured up to a million ops; excludes
            memory.

    Returns:
        An entry of "graphs", as documented in `benchmarks/figures.py`.
    """
    smallest = graph.sizes[0]
    on_progress(f"{graph.name} {size:,}: preparing")
    if size != smallest:
        # Excludes imports, and filling the contexts and the caches of primitives.
        warm_up, _ = contenders(graph, smallest, peer, large=large)
        in_turns(warm_up, rounds=1, seconds=0)
    rounds_of, counts = contenders(graph, size, peer, large=large)
    seconds, missing = in_turns(
        rounds_of,
        rounds=effort.rounds,
        seconds=effort.seconds,
        before_each=lambda name: on_progress(f"{graph.name} {size:,}: {name}"),
    )
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
    peer: PeerProcess | None,
    on_progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Measure a graph at each of its sizes up to `largest`, or at all of them if it is None."""
    sizes = [size for size in graph.sizes if largest is None or size <= largest]
    return [
        measure_graph(graph, size, effort, peer, on_progress, large=True)
        for size in sizes or [graph.sizes[0]]
    ]
