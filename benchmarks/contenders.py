"""What each contender does in a round: every step of it, timed.

Each starts from nothing and keeps nothing: what a round made is gone when the next contender has
its turn, so that the garbage collector doesn't walk over what belongs to another. Caches that a
process fills as it works (ours of shapes and signatures, jax's of primitives) stay filled, on both
sides. jax finds the trace of a function that it has seen, so it gets a new function each time, made
before the clock starts.
"""

from __future__ import annotations

from typing import Any

import jax
from jaxlib.mlir import ir

import lowering
from benchmarks.floor import Floor
from benchmarks.graphs import Graph
from benchmarks.languages import jax_lax, ours
from benchmarks.peer_process import PeerProcess
from benchmarks.timing import Round, timed

__all__ = ["contenders", "counts"]


def _our_round(graph: Graph, size: int, *, large: bool) -> dict[str, float]:
    times: dict[str, float] = {}
    times["record"], computation = timed(ours.record, graph, size)
    times["lower"], module = timed(lowering.lower, computation)
    times["bytecode"], _ = timed(lambda: module.bytecode)
    if not large:
        times["verify"], _ = timed(module.verify)
        times["artifact"], _ = timed(module.artifact)
        times["hlo_text"], _ = timed(computation.to_hlo_text)
    return times


def _jax_round(graph: Graph, size: int) -> dict[str, float]:
    times: dict[str, float] = {}
    function, arguments = jax_lax.record(graph, size)
    times["jax_trace"], traced = timed(jax.jit(function).trace, *arguments)
    times["jax_lower"], _ = timed(traced.lower)
    return times


def _floor_round(floor: Floor, text: str | None, context: Any) -> dict[str, float]:
    times: dict[str, float] = {}
    times["floor_create"], module = timed(floor.create)
    times["floor_verify"], _ = timed(module.operation.verify)
    if text is not None:
        times["parse"], _ = timed(_parse, text, context)
    return times


def _parse(text: str, context: Any) -> Any:
    """The module that MLIR's parser reads from a text; it verifies as well."""
    return ir.Module.parse(text, context)


def contenders(
    graph: Graph, size: int, peer: PeerProcess | None, *, large: bool = False
) -> tuple[dict[str, Round], dict[str, int]]:
    """Those that build a graph of this size, and what it consists of.

    Args:
        graph: the graph.
        size: its size.
        peer: the C++ XlaBuilder, if there is one.
        large: whether only the steps are run that are measured up to a million ops.
    """
    computation = ours.record(graph, size)
    module = lowering.lower(computation)
    floor = Floor(module.module)
    consists = counts(computation) | {"operations": floor.count}
    text = None if large else module.text
    context = module.module.context
    found: dict[str, Round] = {
        "ours": lambda: _our_round(graph, size, large=large),
        "jax": lambda: _jax_round(graph, size),
        "floor": lambda: _floor_round(floor, text, context),
    }
    if peer is not None:
        found["xla_builder"] = lambda: peer.measure(graph.name, size)
    return found, consists


def counts(computation: Any) -> dict[str, int]:
    """How many computations there are with the one given, and how many ops in all of them."""
    called = computation.called_computations()
    return {
        "ops": sum(len(one.ops) for one in (computation, *called)),
        "computations": 1 + len(called),
    }
