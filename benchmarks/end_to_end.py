"""Measure the time from the first recorded op to the first result, for xlabuilder and jax.jit.

The stages are: record (jax: trace), lower, compile, run once with NumPy arrays and wait for the
result. Times are elapsed times, because XLA compiles on several threads.
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
from benchmarks.timing import in_turns, stage_spreads

__all__ = ["PAIRS", "measure_end_to_end"]

SUMS: Final = {
    "record and lower": ("record", "lower"),
    "total": ("record", "lower", "compile", "run"),
}

PAIRS: Final = (("chain", 100), ("chain", 2_000), ("resnet50", 1))
"""Small and large graphs. XLA takes too long to compile the chain at its default size."""


def _values(graph: Graph, size: int) -> list[np.ndarray]:
    return [
        np.ones(dimensions, dtype)
        if np.issubdtype(np.dtype(dtype), np.inexact)
        else np.zeros(dimensions, dtype)
        for _, dtype, dimensions in graph.arguments(size)
    ]


class _Clock:
    """Records the elapsed seconds of each stage."""

    def __init__(self, side: str) -> None:
        self.side = side
        self.times: dict[str, float] = {}
        gc.collect()
        self._last = time.perf_counter()

    def end_stage(self, stage: str) -> None:
        now = time.perf_counter()
        self.times[f"{self.side} {stage}"] = now - self._last
        self._last = now


def _ours(graph: Graph, size: int) -> dict[str, float]:
    values = _values(graph, size)
    clock = _Clock("ours")
    computation = ours.record(graph, size)
    clock.end_stage("record")
    module = lowering.lower(computation)
    clock.end_stage("lower")
    executable = lowering.compile(module)
    clock.end_stage("compile")
    jax.block_until_ready(executable(*values))
    clock.end_stage("run")
    return clock.times


def _jax(graph: Graph, size: int) -> dict[str, float]:
    values = _values(graph, size)
    function, _ = jax_lax.record(graph, size)
    clock = _Clock("jax")
    traced = jax.jit(function).trace(*values)
    clock.end_stage("record")
    lowered = traced.lower()
    clock.end_stage("lower")
    executable = lowered.compile()
    clock.end_stage("compile")
    jax.block_until_ready(executable(*values))
    clock.end_stage("run")
    return clock.times


def measure_end_to_end(
    pairs: Sequence[tuple[str, int]],
    *,
    rounds: int,
    seconds: float,
    on_progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Measure the stages of both sides, in turns.

    Args:
        pairs: names of graphs, and their sizes.
        rounds: the maximum number of rounds.
        seconds: the time after which a side is left out of further rounds of a graph.
        on_progress: called with a description of each measurement.

    Returns:
        The entries of "end_to_end", as documented in `benchmarks/figures.py`.
    """
    entries: list[dict[str, Any]] = []
    for name, size in pairs:
        graph = GRAPHS[name]
        _ours(graph, graph.sizes[0])
        _jax(graph, graph.sizes[0])
        label = f"{name} {size:,}, end to end: "
        times, _ = in_turns(
            {"ours": partial(_ours, graph, size), "jax": partial(_jax, graph, size)},
            rounds=rounds,
            seconds=seconds,
            before_each=lambda side, label=label: on_progress(label + side),
        )
        ms = stage_spreads(times, SUMS)
        ratios = {
            f"{stage}, ours/jax": ms["ours"][stage]["median"] / ms["jax"][stage]["median"]
            for stage in SUMS
        }
        ops = counts(ours.record(graph, size))["ops"]
        entry = {"graph": name, "title": graph.title, "size": size, "ops": ops}
        entries.append(entry | {"ms": ms, "ratios": ratios})
    return entries
