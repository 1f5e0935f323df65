"""Derivatives of batch normalization, against jax's of the definitions in f64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import builder as xb
import lowering
from builder import lib

EPSILON = float(np.float32(1e-3))  # the attribute's type is f32


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def normalized(x: Any, mean: Any, variance: Any, feature: int) -> Any:
    sizes = [1] * x.ndim
    sizes[feature] = -1
    deviation = jnp.sqrt(variance + EPSILON)
    return (x - mean.reshape(sizes)) / deviation.reshape(sizes)


def along(values: Any, x: Any, feature: int) -> Any:
    return jnp.moveaxis(jnp.broadcast_to(values, np.moveaxis(x, feature, -1).shape), -1, feature)


def statistics(x: Any, feature: int) -> tuple[Any, Any]:
    others = tuple(d for d in range(x.ndim) if d != feature)
    return x.mean(others), x.var(others)


def training(x: Any, scale: Any, offset: Any, feature: int) -> Any:
    mean, variance = statistics(x, feature)
    y = normalized(x, mean, variance, feature)
    return y * along(scale, x, feature) + along(offset, x, feature), mean, variance


def inference(x: Any, scale: Any, offset: Any, mean: Any, variance: Any, feature: int) -> Any:
    y = normalized(x, mean, variance, feature)
    return y * along(scale, x, feature) + along(offset, x, feature)


def gradient(x: Any, scale: Any, mean: Any, variance: Any, dy: Any, feature: int) -> Any:
    """The gradients if the mean and the variance are those of the operand."""
    others = tuple(d for d in range(x.ndim) if d != feature)
    y = normalized(x, mean, variance, feature)
    centered = (
        dy - along(dy.mean(others), x, feature) - y * along((dy * y).mean(others), x, feature)
    )
    factor = along(scale / jnp.sqrt(variance + EPSILON), x, feature)
    return factor * centered, (dy * y).sum(others), dy.sum(others)


OPS = {
    "training": (
        lambda x, s, o, m, v, g, f: xb.batch_norm_training(x, s, o, EPSILON, f),
        lambda x, s, o, m, v, g, f: training(x, s, o, f),
    ),
    "inference": (
        lambda x, s, o, m, v, g, f: xb.batch_norm_inference(x, s, o, m, v, EPSILON, f),
        lambda x, s, o, m, v, g, f: inference(x, s, o, m, v, f),
    ),
    "grad": (
        lambda x, s, o, m, v, g, f: xb.batch_norm_grad(x, s, m, v, g, EPSILON, f),
        lambda x, s, o, m, v, g, f: gradient(x, s, m, v, g, f),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("feature", [1, 3])
@pytest.mark.parametrize("name", OPS)
def test_all_operands_and_results(name: str, feature: int) -> None:
    """Gradients, and products of their derivatives with a direction."""
    record, reference = OPS[name]
    random = np.random.default_rng(feature)
    sizes = (3, 2, 4, 5)
    count = (sizes[feature],)
    arguments = [random.normal(size=s) for s in (sizes, count, count, count, count, sizes)]
    arguments[4] = np.exp(arguments[4])
    b = xb.XlaBuilder(name)
    operands = [b.parameter(xb.f64[a.shape]) for a in arguments]
    function = lowering.to_jax(b.build(record(*operands, feature)))
    shapes = jax.eval_shape(lambda *a: reference(*a, feature), *arguments)
    weights = jax.tree.map(lambda s: random.normal(size=s.shape), shapes)

    def loss(results: Any) -> Any:
        leaves = zip(jax.tree.leaves(results), jax.tree.leaves(weights), strict=True)
        return sum(jnp.sum(jnp.sin(leaf) * weight) for leaf, weight in leaves)

    every = tuple(range(6))
    one = jax.grad(lambda *a: loss(function(*a)), every)
    other = jax.grad(lambda *a: loss(reference(*a, feature)), every)
    directions = tuple(random.normal(size=a.shape) for a in arguments)
    results = jax.jit(lambda a, d: jax.jvp(one, a, d))(tuple(arguments), directions)
    expected = jax.jit(lambda a, d: jax.jvp(other, a, d))(tuple(arguments), directions)
    for result, value in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [xb.f32, xb.bf16, xb.f16])
@pytest.mark.parametrize("mean", [0, 50])
def test_precision(dtype: xb.PrimitiveType, mean: int) -> None:
    """The statistics are not rounded to the type of the operands."""
    sizes = (8, 6, 3, 4)
    random = np.random.default_rng(0)

    @xb.computation(dtype[sizes], dtype[3], dtype[3], dtype[sizes])
    def loss(x: xb.XlaOp, scale: xb.XlaOp, offset: xb.XlaOp, weights: xb.XlaOp) -> xb.XlaOp:
        y, _, _ = xb.batch_norm_training(x, scale, offset, EPSILON, 2)
        return lib.sum(
            xb.convert_element_type(y, xb.f64) * xb.convert_element_type(weights, xb.f64)
        )

    shapes = (sizes, (3,), (3,), sizes)
    arguments = [random.normal(size=s).astype(dtype.dtype) for s in shapes]
    arguments[0] = (arguments[0].astype(np.float64) + mean).astype(dtype.dtype)
    results = jax.jit(jax.grad(lowering.to_jax(loss), (0, 1, 2)))(*arguments)
    wide = [a.astype(np.float64) for a in arguments]
    by_jax = jax.grad(lambda x, s, o, w: jnp.sum(training(x, s, o, 2)[0] * w), (0, 1, 2))
    expected = jax.jit(by_jax)(*wide)
    for result, value in zip(results, expected, strict=True):
        largest = np.abs(value).max()
        limit = 2.0 ** (-8 if dtype is xb.bf16 else -11 if dtype is xb.f16 else -18)
        assert np.abs(np.asarray(result, np.float64) - value).max() < limit * largest


def test_reverse_mode_sums_two_arrays() -> None:
    """The gradient and its product with the normalized operand, as by hand."""
    sizes = (8, 16, 16, 4)

    @xb.computation(xb.f32[sizes], xb.f32[4], xb.f32[4], xb.f32[sizes])
    def loss(x: xb.XlaOp, scale: xb.XlaOp, offset: xb.XlaOp, weights: xb.XlaOp) -> xb.XlaOp:
        y, _, _ = xb.batch_norm_training(x, scale, offset, EPSILON, 3)
        return lib.sum(y * weights)

    gradients = lowering.grad(loss, ["x", "scale", "offset"])
    sums = [op for op in gradients.ops if op.opcode == "reduce"]
    assert [op.operands[0].shape for op in sums] == [xb.f32[sizes]] * 2, gradients
