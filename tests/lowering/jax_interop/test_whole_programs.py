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

references: Any = load_script("tests/examples/programs_of_jax.py")
load_script("examples/digits.py")  # imported by examples/convnet.py

OLDER_EMITTERS: Any = (
    {} if jax.__version_info__ >= (0, 11) else {"xla_cpu_use_fusion_emitters": False}
)
"""Options for references: XLA's older code generator, which jax 0.11 lacks, compiles faster."""


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
        lib.sum(
            result
            * b.constant(
                weights_of(result.shape.dimensions).astype(result.shape.element_type.dtype)
            )
        )
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
    tolerance: float = 1e-6,
) -> None:
    """Compare the gradients of a computation with those of the same model in jax, in f64.

    Of the gradients with the numbers `symmetric` only the symmetric parts are compared.

    The error, relative to the norm of the gradient, is at most `tolerance`. A model that amplifies
    roundings gets values in f64, because its errors in f32 depend on the instructions of the CPU,
    such as fused multiply-add.
    """
    leaves, tree = jax.tree.flatten(values)
    wide = [np.asarray(leaf, np.float64) if is_float(leaf) else leaf for leaf in leaves]
    numbers = [number for number, leaf in enumerate(leaves) if is_float(leaf)]

    def loss(chosen: list[Any]) -> Any:
        arrays = list(wide)
        for number, value in zip(numbers, chosen, strict=True):
            arrays[number] = value
        found = [leaf for leaf in jax.tree.leaves(model(*tree.unflatten(arrays))) if is_float(leaf)]
        return sum(jnp.sum(leaf * weights_of(leaf.shape)) for leaf in found)

    with jax.enable_x64(True):
        theirs = jax.jit(jax.value_and_grad(loss), compiler_options=OLDER_EMITTERS)
        value, expected = jax.device_get(theirs([wide[number] for number in numbers]))
    ours, operands = loss_of(computation)
    gradients = lowering.gradients(ours, [operands[number] for number in numbers])
    both = lowering.compile(ours.builder.build(xb.tuple(ours, *gradients)))
    got, *found = both(*leaves)
    np.testing.assert_allclose(got, value, rtol=1e-5)

    for number, (gradient, exact) in enumerate(zip(found, expected, strict=True)):
        difference = np.asarray(gradient) - exact
        if number in symmetric:
            difference = (difference + difference.T) / 2
        error = np.linalg.norm(difference) / np.linalg.norm(exact)
        assert error <= tolerance, number


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lstm", "kalman", "fft_convolution"])
def test_examples(name: str) -> None:
    module = load_script(f"examples/{name}.py")
    (*_, program), (model, *_), *_ = references.PROGRAMS[name]
    values = references.arguments(name, module)
    if name == "kalman":
        values = tuple([value.astype(np.float64) for value in values])
    computation = getattr(module, program).computation(*values)
    if name == "kalman":
        # It divides by a covariance's Cholesky factor, and jax by the covariance: derivatives with
        # respect to covariances that are not symmetric differ.
        check(computation, model, values, symmetric=(3, 4, 5), tolerance=1e-10)
    else:
        check(computation, model, values)


@pytest.mark.slow
def test_the_convnet() -> None:
    convnet = load_script("examples/convnet.py")
    images, _, (parameters, *_) = references.arguments("convnet", convnet)
    values = (images, parameters)
    check(lowering.jit(convnet.logits).computation(*values), references.convnet_logits, values)


@pytest.mark.slow
def test_a_block_of_the_gpt() -> None:
    gpt = load_script("examples/gpt.py")
    random = np.random.default_rng(3)
    weights = [array[0].astype(np.float64) for array in gpt.random_weights(seed=1)[2]]
    x = random.normal(size=(1, gpt.WIDTH))
    caches = random.normal(size=(2, gpt.LENGTH, gpt.GROUPS, gpt.HEAD))
    values = (x, weights, *caches, np.int32(20))
    check(lowering.jit(gpt.block).computation(*values), references.gpt_block, values)


def gpt(tokens: xb.XlaOp, embedding: xb.XlaOp, norm: xb.XlaOp, blocks: Sequence[xb.XlaOp]) -> Any:
    """The model of examples/gpt.py for all positions at once; the loss of the next tokens."""
    length = tokens.shape.dimensions[0] - 1
    positions = tokens.builder.iota(xb.s32[length], 0)

    def block(*arrays: xb.XlaOp) -> Any:
        norm, query, key, value, out, norm_2, up, down, x = arrays
        normal = lib.rms_norm(x, norm)
        q = lib.rotary_embedding(lib.linear(normal, query), positions)
        k = lib.rotary_embedding(lib.linear(normal, key), positions)
        heads = lib.dot_product_attention(q, k, lib.linear(normal, value), is_causal=True)
        x = x + lib.linear(xb.reshape(heads, x.shape.dimensions), out)
        return x + lib.linear(lib.gelu(lib.linear(lib.rms_norm(x, norm_2), up)), down)

    x = xb.scan(list(blocks), lib.take(embedding, tokens[:-1], 0), block, 0)[0]
    logits = lib.linear(lib.rms_norm(x, norm), xb.transpose(embedding, [1, 0]))
    return lib.mean(lib.cross_entropy(logits, tokens[1:]))


def gpt_of_jax(tokens: Any, embedding: Any, norm: Any, blocks: Any) -> Any:
    positions = jnp.arange(len(tokens) - 1)

    def normalized(x: Any, scale: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    def rotated(x: Any) -> Any:
        half = x.shape[-1] // 2
        angles = positions[:, None, None] * 10000.0 ** (-jnp.arange(half) / half)
        turned = jax.lax.complex(x[..., :half], x[..., half:]) * jnp.exp(1j * angles)
        return jnp.concatenate([turned.real, turned.imag], -1)

    def block(x: Any, weights: Any) -> Any:
        norm, query, key, value, out, norm_2, up, down = weights
        q, k, v = (jnp.einsum("tw,wnh->tnh", normalized(x, norm), m) for m in (query, key, value))
        heads = jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        x = x + heads.reshape(x.shape) @ out
        return x + jax.nn.gelu(normalized(x, norm_2) @ up) @ down, None

    x, _ = jax.lax.scan(block, embedding[tokens[:-1]], blocks)
    logits = normalized(x, norm) @ embedding.T
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[1:, None], 1))


@pytest.mark.slow
def test_a_gpt() -> None:
    embedding, norm, blocks = load_script("examples/gpt.py").random_weights(seed=1)
    tokens = np.random.default_rng(3).integers(0, len(embedding), 13).astype(np.int32)
    # Two blocks, and weights of the size with which training begins.
    values = (
        tokens,
        embedding / 3,
        norm,
        [array[:2] / (3 if array.ndim > 2 else 1) for array in blocks],
    )
    check(lowering.jit(gpt).computation(*values), gpt_of_jax, values)


def resnet(x: xb.XlaOp, labels: xb.XlaOp, blocks: Any, weights: xb.XlaOp) -> xb.XlaOp:
    """Two residual blocks, the first with a projection and a stride, and a classifier."""

    def normalized(x: xb.XlaOp, scale: xb.XlaOp, offset: xb.XlaOp) -> xb.XlaOp:
        return xb.batch_norm_training(x, scale, offset, 1e-5, 3)[0]

    for kernel, norm, kernel_2, norm_2, projection in blocks:
        y = lib.relu(normalized(lib.conv(x, kernel, 2 if projection else 1), *norm))
        y = normalized(lib.conv(y, kernel_2), *norm_2)
        x = lib.relu(y + (lib.conv(x, projection[0], 2) if projection else x))
    return lib.mean(lib.cross_entropy(lib.linear(lib.mean(x, (1, 2)), weights), labels))


def resnet_of_jax(x: Any, labels: Any, blocks: Any, weights: Any) -> Any:
    def conv(x: Any, kernel: Any, stride: int) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        strides = (stride, stride)
        return jax.lax.conv_general_dilated(x, kernel, strides, "SAME", dimension_numbers=numbers)

    def normalized(x: Any, scale: Any, offset: Any) -> Any:
        return jax.nn.standardize(x, (0, 1, 2), epsilon=1e-5) * scale + offset

    for kernel, norm, kernel_2, norm_2, projection in blocks:
        y = jax.nn.relu(normalized(conv(x, kernel, 2 if projection else 1), *norm))
        y = normalized(conv(y, kernel_2, 1), *norm_2)
        x = jax.nn.relu(y + (conv(x, projection[0], 2) if projection else x))
    logs = jax.nn.log_softmax(x.mean((1, 2)) @ weights)
    return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], 1))


@pytest.mark.slow
def test_a_resnet() -> None:
    random = np.random.default_rng(4)

    def normal(*sizes: int) -> Any:
        return (random.standard_normal(sizes) / 3).astype(np.float32)

    def block(inputs: int, features: int, projection: list[Any]) -> Any:
        kernels = normal(3, 3, inputs, features), normal(3, 3, features, features)
        norms = [(1 + normal(features), normal(features)) for _ in range(2)]
        return kernels[0], norms[0], kernels[1], norms[1], projection

    blocks = [block(3, 8, [normal(1, 1, 3, 8)]), block(8, 8, [])]
    labels = np.array([1, 4, 0], np.int32)
    values = normal(3, 10, 10, 3), labels, blocks, normal(8, 5)
    check(lowering.jit(resnet).computation(*values), resnet_of_jax, values)


@pytest.mark.slow
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


GRAPHS_OF_SEED = 50


def differentiable_nodes(seed: int) -> list[Node]:
    """A random graph without reduce_precision, which rounds: its slope is 0 or infinite."""
    return [
        node._replace(kind="tanh") if node.kind == "reduce_precision" else node
        for node in random_nodes(seed, 11)
    ]


@pytest.mark.slow
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
    run = lowering.compile(program)
    dx, dy = (np.asarray(result) for result in run(*x)[2:])

    with jax.enable_x64(True):
        theirs = jax.grad(lowering.to_jax(program.extract(total)), (0, 1))
        expected = jax.jit(theirs, compiler_options=OLDER_EMITTERS)(*x)
    for gradient, reference in zip((dx, dy), expected, strict=True):
        np.testing.assert_allclose(gradient, reference, rtol=1e-9, atol=1e-12)

    # Of four points on a line: the error is of order h**4.
    h = 1e-4
    high, low, higher, lower = (np.asarray(run(*(x + step * h * u))[0]) for step in (1, -1, 2, -2))
    slopes = (8 * (high - low) - (higher - lower)) / (12 * h)
    directional = np.sum(dx * u[0] + dy * u[1], (1, 2))
    np.testing.assert_allclose(directional, slopes, rtol=1e-7, atol=1e-7)
