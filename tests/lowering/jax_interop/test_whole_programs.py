"""Gradients of whole programs, recorded as ops, against jax's own and finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_graphs import Node, random_nodes, record
from scripts import load_script

import builder as xb
import lowering
from benchmarks.graphs import GRAPHS
from benchmarks.languages import jax_lax, ours
from builder import lib

references: Any = load_script("tests/examples/test_programs.py")


def weights_of(shape: Any) -> np.ndarray:
    """Weights of a result's elements, which make a loss of it."""
    return np.random.default_rng(7).uniform(0.5, 1, shape).astype(np.float32)


def is_float(value: Any) -> bool:
    return np.issubdtype(value.dtype, np.floating)


def loss_of(computation: xb.XlaComputation) -> tuple[xb.XlaOp, list[xb.XlaOp]]:
    """Inline a computation; return the weighted sum of its floating-point results."""
    b = xb.XlaBuilder("loss")
    operands = [b.parameter(p.shape) for p in computation.parameters]
    results = flat_ops(xb.inline(computation, *operands))
    terms = [
        lib.sum(result * b.constant(weights_of(result.shape.dimensions)))
        for result in results
        if result.shape.element_type.is_floating
    ]
    return sum(terms[1:], start=terms[0]), operands


def flat_ops(op: xb.XlaOp) -> list[xb.XlaOp]:
    return [leaf for part in op for leaf in flat_ops(part)] if op.shape.is_tuple else [op]


def check(
    computation: xb.XlaComputation,
    model: Callable[..., Any],
    values: Any,
    *,
    symmetric: Sequence[int] = (),
    rtol: float = 1e-6,
) -> None:
    """Compare the gradients of a computation with those of the same model in jax.

    Of the gradients with the numbers `symmetric` only the symmetric parts are compared.

    The error is relative to the norm of the gradient: sums are added in another order.
    """
    leaves, tree = jax.tree.flatten(values)
    numbers = [number for number, leaf in enumerate(leaves) if is_float(leaf)]

    def loss(chosen: list[Any]) -> Any:
        arrays = list(leaves)
        for number, value in zip(numbers, chosen, strict=True):
            arrays[number] = value
        found = [leaf for leaf in jax.tree.leaves(model(*tree.unflatten(arrays))) if is_float(leaf)]
        return sum(jnp.sum(leaf * weights_of(leaf.shape)) for leaf in found)

    value, expected = jax.jit(jax.value_and_grad(loss))([leaves[number] for number in numbers])
    ours, operands = loss_of(computation)
    gradients = lowering.gradients(ours, [operands[number] for number in numbers])
    both = lowering.compile(ours.builder.build(xb.tuple(ours, *gradients)))
    got, *found = both(*leaves)
    np.testing.assert_allclose(got, value, rtol=1e-5)
    for number, (gradient, reference) in enumerate(zip(found, expected, strict=True)):
        difference = gradient - reference
        if number in symmetric:
            difference = (difference + difference.T) / 2
        assert np.linalg.norm(difference) <= rtol * np.linalg.norm(reference)


@pytest.mark.parametrize("name", ["convnet", "lstm", "kalman", "fft_convolution"])
def test_examples(name: str) -> None:
    module = load_script(f"examples/{name}.py")
    (*_, program), (model, *_), _ = references.REFERENCES[name]
    values = references.arguments(name, module)
    computation = getattr(module, program).computation(*values)
    if name == "kalman":
        # It divides by a covariance's Cholesky factor, and jax by the covariance: roundings differ,
        # and so do derivatives with respect to covariances that are not symmetric.
        check(computation, model, values, symmetric=(3, 4, 5), rtol=5e-6)
    else:
        check(computation, model, values)


def test_a_block_of_the_gpt() -> None:
    gpt = load_script("examples/gpt.py")
    random = np.random.default_rng(3)
    weights = [array[0] for array in gpt.random_weights(seed=1)[2]]
    x = random.normal(size=(1, gpt.WIDTH)).astype(np.float32)
    caches = random.normal(size=(2, gpt.LENGTH, gpt.GROUPS, gpt.HEAD)).astype(np.float32)
    values = (x, weights, *caches, np.int32(20))
    # jax adds the heads' products in another order, and the softmax amplifies the difference.
    check(lowering.jit(gpt.block).computation(*values), references.gpt_block, values, rtol=3e-6)


@pytest.mark.parametrize(
    ("name", "size"), [("layers", 3), ("lstm", 6), ("chain", 20), ("reducers", 4)]
)
def test_benchmark_graphs(name: str, size: int) -> None:
    """Those that are small and have no loop without a known trip count."""
    graph = GRAPHS[name]
    model, _ = jax_lax.record(graph, size)
    random = np.random.default_rng(2)
    values = [
        (random.standard_normal(sizes) / 8).astype(dtype)
        for _, dtype, sizes in graph.arguments(size)
    ]
    check(ours.record(graph, size), model, tuple(values))


GRAPHS_OF_SEED = 200


def differentiable_nodes(seed: int) -> list[Node]:
    """A random graph without reduce_precision, which rounds: its slope is 0 or infinite."""
    return [
        node._replace(kind="tanh") if node.kind == "reduce_precision" else node
        for node in random_nodes(seed, 11)
    ]


def test_random_graphs() -> None:
    """All in one program, because compiling many small ones is slow; each has its own operands."""
    b = xb.XlaBuilder("graphs")
    parameters = [b.parameter(xb.f64[GRAPHS_OF_SEED, 4, 4]) for _ in range(2)]
    losses = []
    for seed in range(GRAPHS_OF_SEED):
        graph, _ = record(differentiable_nodes(seed), shape=xb.f64[4, 4])
        operands = [parameter[seed] for parameter in parameters]
        losses.append(lib.sum(xb.tanh(xb.inline(graph, *operands))))
    values = xb.concatenate([loss[None] for loss in losses], 0)
    total = lib.sum(values)
    program = b.build(xb.tuple(values, total, *lowering.gradients(total, parameters)))
    random = np.random.default_rng(1)
    x, u = random.uniform(-1, 1, (2, 2, GRAPHS_OF_SEED, 4, 4))
    fast = {"xla_backend_optimization_level": 0}  # to compile
    run = lowering.compile(program, options=fast)
    dx, dy = (np.asarray(result) for result in run(*x)[2:])

    with jax.enable_x64(True):
        theirs = jax.grad(lowering.to_jax(program.extract(total)), (0, 1))
        expected = jax.jit(theirs, compiler_options=fast)(*x)
    for gradient, reference in zip((dx, dy), expected, strict=True):
        np.testing.assert_allclose(gradient, reference, rtol=1e-9, atol=1e-12)

    # Of four points on a line: the error is of order h**4.
    h = 1e-4
    high, low, higher, lower = (np.asarray(run(*(x + step * h * u))[0]) for step in (1, -1, 2, -2))
    slopes = (8 * (high - low) - (higher - lower)) / (12 * h)
    directional = np.sum(dx * u[0] + dy * u[1], (1, 2))
    np.testing.assert_allclose(directional, slopes, rtol=1e-7, atol=1e-7)
