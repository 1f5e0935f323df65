"""Measure computations inside jax, and recorded gradients.

The program is the transformer of `benchmarks.graphs` with small arrays: tracing does not depend on
their sizes, and an execution is short.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import jax
import numpy as np

import builder as xb
import lowering
from benchmarks.graphs.transformer import Config, graph_of, loss_of
from benchmarks.languages import jax_lax, ours as with_ops
from benchmarks.timing import beside, timed

__all__ = ["LAYERS", "measure_interop"]

LAYERS: Final = 4

_CONFIG: Final = Config(batch=2, sequence=128, model=256, heads=4, inner=1024, vocabulary=1000)


def measure_interop(
    *, layers: int, rounds: int, seconds: float, on_progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure tracing and executing a transformer with its gradients, each beside a reference.

    Args:
        layers: the number of layers.
        rounds: the maximum number of rounds.
        seconds: the time after which a contender is left out of further rounds.
        on_progress: called with a description of each measurement.

    Returns:
        The entries of "interop", as documented in `benchmarks/figures.py`.
    """
    graph = graph_of(_CONFIG)
    by_hand = with_ops.record(graph, layers)
    in_jax = lowering.to_jax(by_hand)
    of_lax = partial(graph.body, jax_lax, layers)
    shapes = by_hand.signature.parameters
    values = _values(shapes)
    executed = {
        "to_jax": jax.jit(in_jax),
        "jax.lax": jax.jit(of_lax),
        "gradients": lowering.compile(_derived(layers, shapes)),
        "by hand": lowering.compile(by_hand),
    }
    _compare([jax.tree.leaves(call(*values)) for call in executed.values()])

    def trace(function: Callable[..., Any]) -> float:
        # A new function each time, because jax caches traces by function.
        return timed(jax.jit(lambda *v: function(*v)).trace, *values)[0]

    def execute(call: Callable[..., Any]) -> float:
        start = time.perf_counter()
        jax.block_until_ready(jax.tree.leaves(call(*values)))
        return time.perf_counter() - start

    measured = (
        ("trace jax.jit(to_jax(c))", "the program in jax.lax", trace, in_jax, of_lax),
        (
            "execute jax.jit(to_jax(c))",
            "the program in jax.lax",
            execute,
            executed["to_jax"],
            executed["jax.lax"],
        ),
        (
            "execute lowering.gradients",
            "gradients written by hand",
            execute,
            executed["gradients"],
            executed["by hand"],
        ),
    )
    entries = []
    for what, reference, measure, one, other in measured:
        on_progress(what)
        calls = partial(measure, one), partial(measure, other)
        compared = beside(*calls, rounds=rounds, seconds=seconds)
        entries.append({"what": what, "beside": reference, **compared})
    return entries


def _values(shapes: Sequence[Any]) -> list[Any]:
    """Return random inputs and weights, with probabilities as targets."""
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-0.5, 0.5, shape.dimensions).astype(np.float32) for shape in shapes]
    arrays[2] = np.exp(arrays[2]) / np.exp(arrays[2]).sum(axis=-1, keepdims=True)
    return [jax.numpy.asarray(array) for array in arrays]


def _derived(layers: int, shapes: Sequence[xb.Shape]) -> xb.XlaComputation:
    """Return the loss and the gradients that `lowering.gradients` derives from it."""
    b = xb.XlaBuilder("derived")
    inputs = [b.parameter(shape) for shape in shapes]
    loss = loss_of(_CONFIG, with_ops, layers, *inputs)
    return b.build(xb.tuple(loss, *lowering.gradients(loss, inputs[3:])))


def _compare(results: Sequence[Sequence[Any]]) -> None:
    """Check that all contenders compute the same loss and gradients."""
    _, *gradients = results[0]
    largest = max(float(np.abs(gradient).max()) for gradient in gradients)
    for leaves in zip(*results, strict=True):
        for leaf in leaves[1:]:
            np.testing.assert_allclose(leaf, leaves[0], rtol=1e-3, atol=1e-4 * largest)
