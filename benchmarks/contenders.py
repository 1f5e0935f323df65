"""What each contender does in a round: every step of it, timed.

Each starts from nothing and keeps nothing: what a round made is gone when the next contender has
its turn, so that the garbage collector doesn't walk over what belongs to another. Caches that a
process fills as it works (ours of shapes and signatures, jax's of primitives) stay filled, on both
sides. jax finds the trace of a function that it has seen, so it gets a new function each time, made
before the clock starts.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import jax
import numpy as np
from jaxlib.mlir import ir

import lowering
from benchmarks.floor import Floor, objects
from benchmarks.graphs import Graph
from benchmarks.languages import jax_lax, ours
from benchmarks.peer_process import PeerProcess
from benchmarks.timing import Round, timed
from builder.graph.computation import XlaComputation
from lowering.jaxlib_api import mlir

__all__ = ["LARGE_BYTES", "code_of", "contenders", "counts", "large_arrays"]

LARGE_BYTES: Final = 4096
"""From this size on MLIR is given an array by itself, beside the bytecode that is read."""


def _our_round(graph: Graph, size: int, *, large: bool) -> dict[str, float]:
    times: dict[str, float] = {}
    # First, so that nothing else has to be kept meanwhile.
    times["record_uncollected"], _ = timed(_uncollected, ours.record, graph, size)
    del _
    times["record"], computation = timed(ours.record, graph, size)
    times["lower"], module = timed(lowering.lower, computation)
    times["bytecode"], code = timed(lambda: module.bytecode)
    times["import"], _ = timed(_imported, code)
    del code
    if not large:
        times["verify"], _ = timed(module.verify)
        times["artifact"], _ = timed(module.artifact)
        times["hlo_text"], _ = timed(computation.to_hlo_text)
    return times


def _imported(code: bytes) -> Any:
    """The computation that bytecode holds; MLIR reads it in a context of its own."""
    return lowering.to_computation(lowering.load_bytes(code))


def _uncollected(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call, during which the garbage collector doesn't run."""
    gc.disable()
    try:
        return function(*arguments)
    finally:
        gc.enable()


def _objects_round(count: int) -> dict[str, float]:
    made, _ = timed(objects, count)
    del _
    uncollected, _ = timed(_uncollected, objects, count)
    return {"objects": made, "collector": max(made - uncollected, 0.0)}


def _jax_round(graph: Graph, size: int) -> dict[str, float]:
    times: dict[str, float] = {}
    function, arguments = jax_lax.record(graph, size)
    times["jax_trace"], traced = timed(jax.jit(function).trace, *arguments)
    times["jax_lower"], _ = timed(traced.lower)
    return times


class _Alone:
    """What MLIR does without us: with a finished module, its code, its text and its constants."""

    def __init__(self, computation: Any, module: Any, *, large: bool) -> None:
        self.floor = Floor(module.module)
        self._module = module.module
        self._code = code_of(computation)
        self._text = None if large else module.text
        self._arrays = [] if large else large_arrays(computation)

    def round(self) -> dict[str, float]:
        times: dict[str, float] = {}
        times["floor_create"], made = timed(self.floor.create)
        times["floor_verify"], _ = timed(made.operation.verify)
        del made
        times["read"], _ = timed(_parse, self._code, self._module.context)
        if self._text is not None:
            times["write"], _ = timed(mlir.bytecode_pieces, self._module)
            times["parse"], _ = timed(_parse, self._text, self._module.context)
        if self._arrays:
            context = mlir.new_context()
            with context, ir.Location.unknown():
                times["data"], _ = timed(_copied, self._arrays)
        return times


def _parse(source: str | bytes, context: Any) -> Any:
    """The module that MLIR reads from a text or from bytecode; it verifies as well."""
    return ir.Module.parse(source, context)


def _copied(arrays: Sequence[Any]) -> None:
    """MLIR copies arrays into the context, and hashes them to find those that are equal."""
    for array in arrays:
        ir.DenseElementsAttr.get(array)


def large_arrays(computation: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a computation's constants, from some KB on, as unsigned integers.

    What the numbers mean is nothing to a copy, and NumPy's buffers know no bfloat16.
    """
    arrays = (op.attributes["value"] for op in computation.ops if op.opcode == "constant")
    return [
        array.view(f"uint{8 * array.itemsize}") for array in arrays if array.nbytes >= LARGE_BYTES
    ]


def code_of(computation: Any) -> bytes:
    """The bytecode that lowering writes and MLIR reads. It is kept nowhere, so it is caught."""
    caught: list[bytes] = []

    def parse(code: bytes, context: Any) -> Any:
        caught.append(code)
        return ir.Module.parse(code, context)

    stand_in = SimpleNamespace(Module=SimpleNamespace(parse=parse), MLIRError=ir.MLIRError)
    with mock.patch.object(importlib.import_module("lowering.stablehlo.lower"), "ir", stand_in):
        lowering.lower(computation)
    (code,) = caught
    return code


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
    # Twice, so that there is memory for a second module: nobody's turn has to wait for it.
    module = lowering.lower(computation)
    lowering.lower(computation)
    alone = _Alone(computation, module, large=large)
    consists = counts(computation) | {"operations": alone.floor.count}
    found: dict[str, Round] = {
        "ours": lambda: _our_round(graph, size, large=large),
        "jax": lambda: _jax_round(graph, size),
        "floor": alone.round,
        "objects": lambda: _objects_round(consists["recorded"]),
    }
    if peer is not None:
        found["xla_builder"] = lambda: peer.measure(graph.name, size)
    return found, consists


_REPEATING: Final = frozenset(("while", "conditional", "call"))
"""Opcodes whose computations are part of the graph at each place that applies them."""


def counts(computation: XlaComputation) -> dict[str, int]:
    """How large a graph is: as it is written, and as it is recorded.

    Returns:
        "ops": those of the graph, as all contenders build it: what a loop or a branch applies
        counts wherever it is applied, and other computations, such as reducers, once;
        "recorded": the ops that are recorded, where functions that are alike are one computation;
        "computations": the one given, and those that ops apply.
    """
    called = computation.called_computations()
    sizes: dict[XlaComputation, int] = {}
    once: dict[XlaComputation, None] = {}
    for one in (*called, computation):  # callees before their callers
        size = len(one.ops)
        for opcode, applied, times in one.applications():
            if opcode in _REPEATING:
                size += times * sum(sizes[inner] for inner in applied)
            else:
                once.update(dict.fromkeys(applied))
        sizes[one] = size
    return {
        "ops": sizes[computation] + sum(sizes[one] for one in once),
        "recorded": sum(len(one.ops) for one in (computation, *called)),
        "computations": 1 + len(called),
    }
