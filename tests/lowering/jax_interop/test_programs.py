"""Whole programs: `to_jax` against `compile`, and gradients against the same programs in jax."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from random_graphs import random_nodes, record
from scripts import load_script
from support import assert_same_bits, flat

import builder as xb
import lowering
from benchmarks.graphs import GRAPHS
from benchmarks.languages import jax_lax, ours

GRAPHS_OF_SEED = 50

SIZES = {"chain": 10, "control_flow": 4, "layers": 2, "lstm": 3, "reducers": 4}
"""Benchmark graphs, and sizes at which they compile fast."""


@pytest.mark.slow
def test_random_graphs() -> None:
    """All in one program, because compiling many small ones is slow."""
    computations = [record(random_nodes(seed, 25))[0] for seed in range(GRAPHS_OF_SEED)]
    b = xb.XlaBuilder("graphs")
    parameters = [b.parameter(xb.f32[4, 4]) for _ in range(2)]
    roots = [xb.inline(c, *parameters[: len(c.parameters)]) for c in computations]
    program = b.build(xb.tuple(*roots))
    random = np.random.default_rng(1)
    arguments = [random.uniform(-1, 1, (4, 4)).astype(np.float32) for _ in range(2)]
    expected = lowering.compile(program)(*arguments)
    result = jax.jit(lowering.to_jax(program))(*arguments)
    for one, other in zip(result, expected, strict=True):
        # `compile` rewrites maxima that are reduced, and XLA fuses other loops then.
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def values_for(graph: Any, size: int) -> list[np.ndarray]:
    random = np.random.default_rng(2)
    values = []
    for _, dtype, sizes in graph.arguments(size):
        if np.issubdtype(np.dtype(dtype), np.integer):
            values.append(random.integers(0, 3, sizes).astype(dtype))
        else:
            values.append((random.standard_normal(sizes) / 8).astype(dtype))
    return values


@pytest.mark.parametrize("name", SIZES)
def test_benchmark_graphs(name: str) -> None:
    graph, size = GRAPHS[name], SIZES[name]
    computation = ours.record(graph, size)
    values = values_for(graph, size)
    function = lowering.to_jax(computation)
    expected = lowering.compile(computation)(*values)
    for one, other in zip(flat(jax.jit(function)(*values)), flat(expected), strict=True):
        assert_same_bits(np.asarray(one), np.asarray(other))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["layers", "lstm"])
def test_gradients_of_benchmark_graphs(name: str) -> None:
    graph, size = GRAPHS[name], SIZES[name]
    written, _ = jax_lax.record(graph, size)
    values = values_for(graph, size)
    function = lowering.to_jax(ours.record(graph, size))

    def total(model: Any) -> Any:
        def loss(*arguments: Any) -> Any:
            leaves = jax.tree_util.tree_leaves(model(*arguments))
            return sum((leaf * leaf).sum() for leaf in leaves)

        return jax.jit(jax.grad(loss, argnums=range(len(values))))(*values)

    for one, other in zip(total(function), total(written), strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * scale)


@pytest.mark.slow
def test_gradient_of_the_digits_example() -> None:
    """The derivative of `to_jax` equals the gradients that the example records."""
    digits = load_script("examples/digits.py")
    b = xb.XlaBuilder("step")
    sizes = [(digits.BATCH, digits.PIXELS), (digits.BATCH, digits.CLASSES)]
    images, labels = (b.parameter(xb.f32[s]) for s in sizes)
    parameters = [b.parameter(shape) for shape in digits.PARAMETERS]
    loss, gradients = digits.loss_and_gradients(images, labels, parameters)
    function = lowering.to_jax(b.build(xb.tuple(loss, *gradients)))
    random = np.random.default_rng(4)
    images = random.uniform(0, 1, sizes[0]).astype(np.float32)
    labels = np.eye(digits.CLASSES, dtype=np.float32)[random.integers(0, 10, digits.BATCH)]
    values = [
        (random.standard_normal(s.dimensions) / 8).astype(np.float32) for s in digits.PARAMETERS
    ]

    @jax.jit
    def both(*weights: Any) -> Any:
        slopes = jax.grad(lambda *weights: function(images, labels, *weights)[0], argnums=range(4))
        return function(images, labels, *weights)[1:], slopes(*weights)

    written, derived = both(*values)
    for one, other in zip(derived, written, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
