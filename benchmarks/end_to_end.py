"""From the first recorded op to the first result, beside jax.jit.

The steps: record (jax: trace), lower, compile, run once with NumPy arrays and wait for the result.
Time that passed, as XLA compiles on several threads.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import jax
import numpy as np

import lowering
from benchmarks.contenders import counts
from benchmarks.graphs import GRAPHS, Graph
from benchmarks.languages import jax_lax, ours
from benchmarks.timing import in_turns, spread

__all__ = ["PAIRS", "measure_end_to_end"]

STAGES: Final = ("record", "lower", "compile", "run")

PAIRS: Final = (("chain", 100), ("chain", 2_000), ("resnet50", 1))
"""Small and large graphs, as far as XLA compiles them soon: 10,000 ops of the chain take it more
than a minute."""


def _values(graph: Graph, size: int) -> list[np.ndarray]:
    return [
        np.ones(dimensions, dtype)
        if np.issubdtype(np.dtype(dtype), np.inexact)
        else np.zeros(dimensions, dtype)
        for _, dtype, dimensions in graph.arguments(size)
    ]


class _Clock:
    """Notes when each stage ends."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.times: dict[str, float] = {}
        gc.collect()
        self._last = time.perf_counter()

    def ends(self, stage: str) -> None:
        now = time.perf_counter()
        self.times[f"{self.who} {stage}"] = now - self._last
        self._last = now


def _ours(graph: Graph, size: int) -> dict[str, float]:
    values = _values(graph, size)
    clock = _Clock("ours")
    computation = ours.record(graph, size)
    clock.ends("record")
    module = lowering.lower(computation)
    clock.ends("lower")
    executable = lowering.compile(module)
    clock.ends("compile")
    jax.block_until_ready(executable(*values))
    clock.ends("run")
    return clock.times


def _jax(graph: Graph, size: int) -> dict[str, float]:
    values = _values(graph, size)
    function, _ = jax_lax.record(graph, size)
    clock = _Clock("jax")
    traced = jax.jit(function).trace(*values)
    clock.ends("record")
    lowered = traced.lower()
    clock.ends("lower")
    executable = lowered.compile()
    clock.ends("compile")
    jax.block_until_ready(executable(*values))
    clock.ends("run")
    return clock.times


def _told(tell: Callable[[str], None], what: str, who: str) -> None:
    tell(f"{what}: {who}")


def measure_end_to_end(
    pairs: Sequence[tuple[str, int]],
    *,
    rounds: int,
    seconds: float,
    tell: Callable[[str], None],
) -> list[dict[str, Any]]:
    """For each graph and size the milliseconds of every stage, for both, in turns.

    Args:
        pairs: names of graphs, and sizes.
        rounds: how many rounds at most.
        seconds: what one side may use up on a graph before it is left out of further rounds.
        tell: is told what is measured now.

    Returns:
        What `benchmarks/figures.py` says of "end_to_end".
    """
    found: list[dict[str, Any]] = []
    for name, size in pairs:
        graph = GRAPHS[name]
        smallest = graph.sizes[0]
        _ours(graph, smallest)
        _jax(graph, smallest)
        times, _ = in_turns(
            {"ours": partial(_ours, graph, size), "jax": partial(_jax, graph, size)},
            rounds=rounds,
            seconds=seconds,
            before_each=partial(_told, tell, f"{name} {size:,}, end to end"),
        )
        milliseconds: dict[str, dict[str, Any]] = {}
        for who in ("ours", "jax"):
            columns = {s: [v * 1e3 for v in times[f"{who} {s}"]] for s in STAGES}
            totals = [sum(parts) for parts in zip(*columns.values(), strict=True)]
            building = [
                record + lower
                for record, lower in zip(columns["record"], columns["lower"], strict=True)
            ]
            columns |= {"record and lower": building, "total": totals}
            milliseconds[who] = {stage: spread(values) for stage, values in columns.items()}
        found.append(
            {
                "graph": name,
                "title": graph.title,
                "size": size,
                "ops": counts(ours.record(graph, size))["ops"],
                "ms": milliseconds,
                "ratios": {
                    f"{stage}, ours/jax": milliseconds["ours"][stage]["median"]
                    / milliseconds["jax"][stage]["median"]
                    for stage in ("record and lower", "total")
                },
            }
        )
    return found
