"""Batch normalization executed on CPU, compared with the formulas in double precision."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import run

import builder as xb
from builder.types.primitive_type import PrimitiveType

# The narrow types are converted to f32 and back, the same for all of up to 16 bits.
FLOATS = [xb.f4e2m1fn, xb.f8e4m3fn, xb.f8e5m2, xb.bf16, xb.f16, xb.f32, xb.f64]
WIDE = [xb.f32, xb.f64]
EPSILON = float(np.float32(0.001))
# Shapes with the feature dimension.
SHAPES = [((4, 3, 5), 1), ((7,), 0), ((2, 1, 2, 3), 3), ((3, 200), 0), ((5, 1), 1)]


def normal(t: PrimitiveType, shape: tuple[int, ...], seed: int, center: float = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) + center).astype(t.dtype)


class Arrays:
    """An operand, a gradient and four vectors, as arrays and as parameters."""

    def __init__(
        self,
        b: xb.XlaBuilder,
        t: PrimitiveType,
        shape: tuple[int, ...],
        feature: int,
        center: float = 1,
    ) -> None:
        count = (shape[feature],)
        rng = np.random.default_rng(5)
        self.feature = feature
        self.operand = normal(t, shape, 1, center)
        self.scale, self.variance = (rng.uniform(0.5, 2, count).astype(t.dtype) for _ in range(2))
        self.offset, self.mean = normal(t, count, 2), normal(t, count, 3)
        self.gradient = normal(t, shape, 4)
        self.all = (
            *(self.operand, self.scale, self.offset),
            *(self.mean, self.variance, self.gradient),
        )
        self.ops = [b.parameter(xb.array_shape(t, a.shape)) for a in self.all]

    def training(self) -> xb.XlaOp:
        return xb.batch_norm_training(*self.ops[:3], EPSILON, self.feature)

    def inference(self) -> xb.XlaOp:
        return xb.batch_norm_inference(*self.ops[:5], EPSILON, self.feature)

    def grad(self) -> xb.XlaOp:
        x, scale, _, mean, variance, gradient = self.ops
        return xb.batch_norm_grad(x, scale, mean, variance, gradient, EPSILON, self.feature)

    def wide(self) -> list[np.ndarray]:
        return [a.astype(np.float64) for a in self.all]


def reduced_axes(x: np.ndarray, feature: int) -> tuple[int, ...]:
    return tuple(d for d in range(x.ndim) if d != feature)


def along(x: np.ndarray, vector: np.ndarray, feature: int) -> np.ndarray:
    """Reshape a vector to broadcast along the feature dimension of `x`."""
    return vector.reshape([-1 if d == feature else 1 for d in range(x.ndim)])


def normalized(
    x: np.ndarray,
    scale: np.ndarray,
    offset: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    feature: int,
) -> np.ndarray:
    g, b, m, v = (along(x, one, feature) for one in (scale, offset, mean, variance))
    return g * (x - m) / np.sqrt(v + EPSILON) + b


def trained(
    x: np.ndarray, scale: np.ndarray, offset: np.ndarray, feature: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the results of training by the documented algorithm."""
    axes = reduced_axes(x, feature)
    mean = x.mean(axes)
    variance = ((x - along(x, mean, feature)) ** 2).mean(axes)
    return normalized(x, scale, offset, mean, variance, feature), mean, variance


def gradients(
    x: np.ndarray,
    scale: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    gradient: np.ndarray,
    feature: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the three gradients by the documented formulas; c and d are named there."""
    axes = reduced_axes(x, feature)
    g, m, v = (along(x, one, feature) for one in (scale, mean, variance))
    c = along(x, (gradient * (x - m) / (v + EPSILON)).mean(axes), feature)
    d = along(x, gradient.mean(axes), feature)
    of_operand = g / np.sqrt(v + EPSILON) * (gradient - d - c * (x - m))
    of_scale = (gradient * (x - m) / np.sqrt(v + EPSILON)).sum(axes)
    return of_operand, of_scale, gradient.sum(axes)


def assert_near(got: Any, want: np.ndarray, size: float | None = None) -> None:
    """Assert that errors are a few roundings of the largest magnitude, or of `size` if larger.

    Types of up to 16 bits are computed in f32 and rounded once, so the tolerance is half a step and
    a little more for ties.
    """
    t = xb.as_primitive_type(got.dtype)
    assert got.shape == want.shape
    if not got.size:
        return
    error = np.abs(got.astype(np.float64) - want)
    if t.bits >= 32:
        step = 2.0 ** (-24 if t is xb.f32 else -53)
        assert error.max() <= 16 * step * max(np.abs(want).max(), size or 0)
        return
    rounded = want.astype(got.dtype).astype(np.float64)
    assert (error <= np.abs(rounded - want) + 2e-5 * max(1, np.abs(want).max())).all()


@pytest.mark.slow
def test_types_and_shapes() -> None:
    """All types have one shape, the widest the others."""
    b = xb.XlaBuilder("types")
    sets = [Arrays(b, t, *shape) for shape in SHAPES[1:] for t in WIDE]
    sets += [Arrays(b, t, *SHAPES[0]) for t in FLOATS]
    root = xb.tuple(*(xb.tuple(a.training(), a.inference(), a.grad()) for a in sets))
    arguments = [array for a in sets for array in a.all]
    for a, (training, inference, grad) in zip(sets, run(b.build(root), *arguments), strict=True):
        x, scale, offset, mean, variance, gradient = a.wide()
        feature = a.feature
        assert all(r.dtype == a.operand.dtype for r in (*training, inference, *grad))
        for got, want in zip(training, trained(x, scale, offset, feature), strict=True):
            assert_near(got, want)
        assert_near(inference, normalized(x, scale, offset, mean, variance, feature))
        expected = gradients(x, scale, mean, variance, gradient, feature)
        for got, want in zip(grad, expected, strict=True):
            assert_near(got, want, 10 * np.abs(gradient).sum() / max(1, scale.size))


@pytest.mark.slow
@pytest.mark.parametrize("t", [xb.f16, xb.f32], ids=str)
def test_large(t: PrimitiveType) -> None:
    """The number of elements per feature and their sums are out of the range of f16."""
    b = xb.XlaBuilder("large")
    a = Arrays(b, t, (70, 2, 1000), 1)
    root = xb.tuple(a.training(), a.inference(), a.grad())
    training, inference, grad = run(b.build(root), *a.all)
    x, scale, offset, mean, variance, gradient = a.wide()
    for got, want in zip(training, trained(x, scale, offset, 1), strict=True):
        assert_near(got, want)
    assert_near(inference, normalized(x, scale, offset, mean, variance, 1))
    expected = gradients(x, scale, mean, variance, gradient, 1)
    assert_near(grad[0], expected[0])
    for got, want in zip(grad[1:], expected[1:], strict=True):
        # The sum of 70,000 numbers of up to 10, in f32.
        rounded = want.astype(t.dtype).astype(np.float64)
        assert (np.abs(got.astype(np.float64) - want) <= np.abs(rounded - want) + 0.05).all()


def test_a_mean_much_larger_than_the_variance() -> None:
    """The mean of the squares minus the square of the mean would be inaccurate or negative."""
    b = xb.XlaBuilder("far")
    x = np.random.default_rng(8).normal(size=(1000, 4)).astype(np.float32)
    x[:, 1] += 1000
    x[:, 2] += 100_000
    x[:, 3] = 1000.1
    ones = np.ones(4, np.float32)
    op, v = b.parameter(xb.f32[1000, 4]), b.parameter(xb.f32[4])
    root = xb.batch_norm_training(op, v, v, EPSILON, 1)
    result, mean, variance = run(b.build(root), x, ones)
    want = trained(x.astype(np.float64), ones, ones, 1)
    np.testing.assert_allclose(mean, want[1], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(variance, want[2], rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(result, want[0], rtol=0, atol=1e-4)


def test_empty() -> None:
    b = xb.XlaBuilder("empty")
    none, nothing = Arrays(b, xb.f32, (4, 0), 1), Arrays(b, xb.f32, (0, 3), 1)
    sets = (none, nothing)
    root = xb.tuple(*(xb.tuple(a.training(), a.inference(), a.grad()) for a in sets))
    got = run(b.build(root), *none.all, *nothing.all)
    for (training, inference, grad), a in zip(got, sets, strict=True):
        for result in (training[0], inference, grad[0]):
            assert result.shape == a.operand.shape
        for vector in (*training[1:], *grad[1:]):
            assert vector.shape == a.scale.shape
    # The empty mean is undefined; the empty sum is 0.
    training, _, grad = got[1]
    assert np.isnan(training[1]).all()
    assert np.isnan(training[2]).all()
    assert grad[1].tolist() == grad[2].tolist() == [0, 0, 0]


def test_gradients_are_derivatives_of_training() -> None:
    """Compare with jax's derivative of the documented algorithm, in f64."""
    b = xb.XlaBuilder("derivative")
    a = Arrays(b, xb.f64, (6, 3, 4), 1)
    trained_here = a.training()
    x, scale, _offset, _, _, gradient = a.ops
    root = xb.batch_norm_grad(
        x, scale, trained_here[1], trained_here[2], gradient, EPSILON, feature_index=1
    )

    def loss(x: Any, scale: Any, offset: Any) -> Any:
        mean = x.mean((0, 2), keepdims=True)
        variance = ((x - mean) ** 2).mean((0, 2), keepdims=True)
        y = scale[:, None] * (x - mean) / jnp.sqrt(variance + EPSILON) + offset[:, None]
        return (y * a.gradient).sum()

    with jax.enable_x64(True):
        expected = jax.jit(jax.grad(loss, (0, 1, 2)))(a.operand, a.scale, a.offset)
        expected = [np.asarray(w) for w in expected]
    for got, want in zip(run(b.build(root), *a.all), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.0**-149, 0.1])
def test_epsilon(epsilon: float) -> None:
    """Epsilon is rounded to the nearest f32."""
    b = xb.XlaBuilder("epsilon")
    x = np.array([[1.0, 2], [3, 6]])
    op, v = b.parameter(xb.f64[2, 2]), b.parameter(xb.f64[2])
    zeros, ones = np.zeros(2), np.ones(2)
    w = b.parameter(xb.f64[2])
    got = run(b.build(xb.batch_norm_inference(op, v, w, w, v, epsilon, 0)), x, ones, zeros)
    want = x / np.sqrt(1 + np.float64(np.float32(epsilon)))
    np.testing.assert_allclose(got, want, rtol=1e-15)


@pytest.mark.parametrize("dimension", [0, 1])
def test_bounded_sizes(dimension: int) -> None:
    """A bounded batch dimension and a bounded feature dimension."""
    b = xb.XlaBuilder("bounded")
    a = Arrays(b, xb.f32, (6, 3), 1, center=50)
    size = b.parameter(xb.s32[()])
    a.ops[0] = xb.set_dimension_size(a.ops[0], size, dimension)
    a.ops[5] = xb.set_dimension_size(a.ops[5], size, dimension)
    root = xb.tuple(a.training(), a.inference(), a.grad())
    training, inference, grad = run(b.build(root), *a.all, np.int32(2))
    kept = slice(2) if dimension == 0 else (slice(None), slice(2))
    features = slice(None) if dimension == 0 else slice(2)
    x, scale, offset, mean, variance, gradient = a.wide()
    x, gradient = x[kept], gradient[kept]
    scale, offset, mean, variance = (v[features] for v in (scale, offset, mean, variance))
    for got, want in zip(training, trained(x, scale, offset, 1), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    expected = normalized(x, scale, offset, mean, variance, 1)
    np.testing.assert_allclose(inference, expected, rtol=1e-5)
    for got, want in zip(grad, gradients(x, scale, mean, variance, gradient, 1), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5)
