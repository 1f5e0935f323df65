"""One graph at one size: times of every step, ratios, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.contenders import contenders
from benchmarks.graphs import Graph
from benchmarks.memory import measure_memory
from benchmarks.peer_process import PeerProcess
from benchmarks.steps import ratios_of
from benchmarks.timing import in_turns, spread

__all__ = ["Effort", "measure_graph", "measure_scaling"]

Tell = Callable[[str], None]
"""Is told what is measured now."""


class Effort:
    """How long to measure.

    Attributes:
        rounds: how many rounds at most.
        seconds: what a contender may use up on one graph before it is left out of further rounds.
        largest: the largest size of a comparison of sizes; None for all.
    """

    def __init__(self, rounds: int, seconds: float, largest: int | None = None) -> None:
        self.rounds = rounds
        self.seconds = seconds
        self.largest = largest


def measure_graph(
    graph: Graph,
    size: int,
    effort: Effort,
    peer: PeerProcess | None,
    tell: Tell,
    *,
    large: bool = False,
) -> dict[str, Any]:
    """What is known of a graph.

    Args:
        graph: the graph.
        size: its size.
        effort: how long to measure.
        peer: the C++ XlaBuilder, if there is one.
        tell: is told what is measured now.
        large: whether to leave out what isn't measured up to a million ops, memory among it.

    Returns:
        What `benchmarks/figures.py` says of an entry of "graphs".
    """
    smallest = graph.sizes[0]
    tell(f"{graph.name} {size:,}: preparing")
    if size != smallest:
        # Imports, contexts and caches of primitives are not what is measured.
        warm, _ = contenders(graph, smallest, peer, large=large)
        in_turns(warm, rounds=1, seconds=0)
    taking_part, consists = contenders(graph, size, peer, large=large)
    seconds, missing = in_turns(
        taking_part,
        rounds=effort.rounds,
        seconds=effort.seconds,
        before_each=lambda name: tell(f"{graph.name} {size:,}: {name}"),
    )
    ops = consists["ops"]
    steps = {step: spread([s / ops * 1e6 for s in found]) for step, found in seconds.items()}
    entry: dict[str, Any] = {
        "title": graph.title,
        "size": size,
        **consists,
        "us": steps,
        "ratios": ratios_of({step: us["median"] for step, us in steps.items()}),
        "missing": missing,
    }
    if not large:
        tell(f"{graph.name} {size:,}: memory")
        measured = measure_memory(graph.name, size)
        ours, theirs = measured["ours"], measured["jax"]
        recorded = consists["recorded"]  # what is shared takes its memory once
        entry["memory"] = {
            "recorded_bytes": ours["recorded"] / recorded,
            "with_module_bytes": ours["grown"] / recorded,
            "peak_bytes": ours["peak"],
            "jax_bytes": theirs["grown"] / recorded,
            "jax_peak_bytes": theirs["peak"],
        }
    return entry


def measure_scaling(
    graph: Graph, effort: Effort, peer: PeerProcess | None, tell: Tell
) -> list[dict[str, Any]]:
    """A graph at each of its sizes, up to the largest that the effort allows."""
    sizes = [s for s in graph.sizes if effort.largest is None or s <= effort.largest]
    return [
        measure_graph(graph, s, effort, peer, tell, large=True) for s in sizes or [graph.sizes[0]]
    ]
