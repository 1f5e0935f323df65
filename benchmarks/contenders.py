"""The contenders: each runs its steps once in a round, and each step is timed.

A contender starts from nothing and keeps nothing. Its results are freed before the next contender
runs, so that the garbage collector does not traverse them during another one's turn. Caches that a
process fills (those of shapes and signatures in xlabuilder, those of primitives in jax) stay
filled, on both sides. jax reuses the trace of a function that it has seen, so each round passes it
a new function, which is made before the clock starts.
"""

from __future__ import annotations

import contextlib
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
from benchmarks.timing import ContenderError, Round, timed
from builder.graph.computation import XlaComputation
from lowering.jaxlib_api import mlir

__all__ = ["EXPORTS", "LARGE_BYTES", "contenders", "counts", "large_arrays", "lowered_bytecode"]

LARGE_BYTES: Final = 4096
"""The least size of an array that lowering passes to MLIR separately from the bytecode."""

EXPORTS: Final = "ours, exports"
"""The turn of the steps of "ours" that are not on the way to a module."""


def _our_round(graph: Graph, size: int, *, large: bool) -> dict[str, float]:
    times: dict[str, float] = {}
    # First, while no other result has to stay alive.
    times["record_uncollected"], _ = timed(_without_collector, ours.record, graph, size)
    del _
    times["record"], computation = timed(ours.record, graph, size)
    times["lower"], module = timed(lowering.lower, computation)
    times["bytecode"], _ = timed(lambda: module.bytecode)
    if not large:
        times["verify"], _ = timed(module.verify)
    return times


def _exports_round(graph: Graph, size: int, *, large: bool) -> dict[str, float]:
    """Measure our steps beside the way to a module. They may take a thousand times as long."""
    times: dict[str, float] = {}
    computation = ours.record(graph, size)
    module = lowering.lower(computation)
    code = module.bytecode
    times["import"], _ = timed(_import, code)
    del code
    if not large:
        times["artifact"], _ = timed(module.artifact)
        times["hlo_text"], _ = timed(computation.to_hlo_text)
    return times


def _import(code: bytes) -> Any:
    """Return the computation in bytecode, which MLIR reads into a new context."""
    return lowering.to_computation(lowering.load_bytes(code))


def _without_collector(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function with the garbage collector disabled."""
    gc.disable()
    try:
        return function(*arguments)
    finally:
        gc.enable()


def _objects_round(count: int) -> dict[str, float]:
    seconds, _ = timed(objects, count)
    del _
    uncollected_seconds, _ = timed(_without_collector, objects, count)
    return {"objects": seconds, "collector": max(seconds - uncollected_seconds, 0.0)}


def _jax_round(graph: Graph, size: int) -> dict[str, float]:
    times: dict[str, float] = {}
    function, arguments = jax_lax.record(graph, size)
    times["jax_trace"], traced = timed(jax.jit(function).trace, *arguments)
    times["jax_lower"], _ = timed(traced.lower)
    return times


class _MlirAlone:
    """MLIR's own work with a finished module, its bytecode, its text and its constants."""

    def __init__(self, computation: Any, module: Any, *, large: bool) -> None:
        self.floor = Floor(module.module)
        self._module = module.module
        self._bytecode = lowered_bytecode(computation)
        self._text = None if large else module.text
        self._arrays = [] if large else large_arrays(computation)

    def round(self) -> dict[str, float]:
        times: dict[str, float] = {}
        times["floor_create"], module = timed(self.floor.create)
        times["floor_verify"], _ = timed(module.operation.verify)
        del module
        times["read"], _ = timed(_parse, self._bytecode, self._module.context)
        if self._text is not None:
            times["write"], _ = timed(mlir.bytecode_pieces, self._module)
            times["parse"], _ = timed(_parse, self._text, self._module.context)
        if self._arrays:
            context = mlir.new_context()
            with context, ir.Location.unknown():
                times["data"], _ = timed(_copy, self._arrays)
        return times


def _parse(source: str | bytes, context: Any) -> Any:
    """Let MLIR read a module from text or bytecode, and verify it."""
    return ir.Module.parse(source, context)


def _copy(arrays: Sequence[Any]) -> None:
    """Let MLIR copy arrays into the context, and hash them to find equal ones."""
    for array in arrays:
        ir.DenseElementsAttr.get(array)


def large_arrays(computation: Any) -> list[np.ndarray[Any, Any]]:
    """Return the constants of a computation of LARGE_BYTES or more, as unsigned integers.

    The element type does not affect a copy, and NumPy's buffers do not support bfloat16.
    """
    arrays = (op.attributes["value"] for op in computation.ops if op.opcode == "constant")
    return [
        array.view(f"uint{8 * array.itemsize}") for array in arrays if array.nbytes >= LARGE_BYTES
    ]


def lowered_bytecode(computation: Any) -> bytes:
    """Return the bytecode that lowering writes and MLIR reads. Lowering does not expose it."""
    parsed: list[bytes] = []

    def parse(bytecode: bytes, context: Any) -> Any:
        parsed.append(bytecode)
        return ir.Module.parse(bytecode, context)

    fake_ir = SimpleNamespace(Module=SimpleNamespace(parse=parse), MLIRError=ir.MLIRError)
    with mock.patch.object(importlib.import_module("lowering.stablehlo.lower"), "ir", fake_ir):
        lowering.lower(computation)
    (bytecode,) = parsed
    return bytecode


def contenders(
    graph: Graph, size: int, peer: PeerProcess | None, *, large: bool = False
) -> tuple[dict[str, Round], dict[str, int]]:
    """Return the contenders for a graph, and the numbers of its ops and operations.

    Args:
        graph: the graph.
        size: its size.
        peer: the C++ XlaBuilder, or None.
        large: whether to run only the steps that are measured up to a million ops.
    """
    computation = ours.record(graph, size)
    # Twice, so that the process has memory for a second module and no contender waits for pages.
    module = lowering.lower(computation)
    lowering.lower(computation)
    mlir_alone = _MlirAlone(computation, module, large=large)
    sizes = counts(computation) | {"operations": mlir_alone.floor.count}
    rounds: dict[str, Round] = {
        "ours": lambda: _our_round(graph, size, large=large),
        EXPORTS: lambda: _exports_round(graph, size, large=large),
        "jax": lambda: _jax_round(graph, size),
        "floor": mlir_alone.round,
        "objects": lambda: _objects_round(sizes["recorded"]),
    }
    if peer is not None:
        with contextlib.suppress(ContenderError):  # its turn reports the error
            peer.measure(graph.name, size)  # so that it has memory, too
        rounds["xla_builder"] = lambda: peer.measure(graph.name, size)
    return rounds, sizes


_CONTROL_FLOW: Final = frozenset(("while", "conditional", "call"))
"""Opcodes whose computations count at each place that applies them."""


def counts(computation: XlaComputation) -> dict[str, int]:
    """Return the size of a graph as written and as recorded.

    Returns:
        "ops": the ops of the graph as all contenders build it. A computation that a loop or a
        branch applies counts wherever it is applied; others, such as reducers, count once.
        "recorded": the ops that are recorded, with equal functions as one computation.
        "computations": the computation itself and those that its ops apply.
    """
    called = computation.called_computations()
    sizes: dict[XlaComputation, int] = {}
    counted_once: set[XlaComputation] = set()
    for caller in (*called, computation):  # callees before their callers
        size = len(caller.ops)
        for opcode, applied, times in caller.applications():
            if opcode in _CONTROL_FLOW:
                size += times * sum(sizes[callee] for callee in applied)
            else:
                counted_once.update(applied)
        sizes[caller] = size
    return {
        "ops": sizes[computation] + sum(sizes[callee] for callee in counted_once),
        "recorded": sum(len(caller.ops) for caller in (computation, *called)),
        "computations": 1 + len(called),
    }
