"""Derivatives of sorts, of `top_k` and of `clamp`: the gradients of numpy's order, and jax's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import mostly_slow

import builder as xb
import lowering
from builder import lib
from lowering.ops.reduction import along

SIZES = (3, 5)
X = np.array([[3.0, -1, 2, 0.5, -4], [1, 5, 2, 7, 0], [-2, -3, 6, 8, 4]])
WEIGHTS = np.arange(1.0, 16).reshape(SIZES)


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def canonical(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
    """Compare as jax does: with one zero and one NaN."""
    keys = [xb.select(xb.ne(v, v), np.nan, xb.select(xb.eq(v, 0), 0, v)) for v in (a, b)]
    return xb.lt_total_order(*keys)


ASCENDING: dict[str, Any] = {
    "less": lambda a, b: a < b,
    "swapped": lambda a, b: b > a,
    "computed": lambda a, b: a * 2 - b * 2 < 0,
    "canonical": canonical,
    "total order": xb.lt_total_order,
    "default": None,
    "of lib": lib.create_scalar_lt_computation([xb.f64]),
}
DESCENDING: dict[str, Any] = {
    "greater": lambda a, b: a > b,
    "swapped": lambda a, b: b < a,
    "of the negative": lambda a, b: -a < -b,
    "total order": xb.gt_total_order,
    "of lib": lib.create_scalar_gt_computation([xb.f64]),
}


@pytest.mark.parametrize(
    ("comparator", "sign"),
    [(c, 1) for c in ASCENDING.values()] + [(c, -1) for c in DESCENDING.values()],
    ids=[f"ascending {n}" for n in ASCENDING] + [f"descending {n}" for n in DESCENDING],
)
def test_sort_by_any_comparator(comparator: Any, sign: int) -> None:
    @xb.computation(xb.f64[SIZES])
    def loss(x: xb.XlaOp) -> xb.XlaOp:
        return lib.sum(xb.sort(x, comparator, 1) * x.builder.constant(WEIGHTS))

    ranks = np.argsort(np.argsort(sign * X, axis=1), axis=1)
    expected = np.take_along_axis(WEIGHTS, ranks, axis=1)
    function = lowering.to_jax(loss)

    @jax.jit
    def derivatives(x: Any) -> Any:
        return jax.grad(function)(x), jax.jvp(function, (x,), (WEIGHTS,))[1]

    gradient, tangent = derivatives(X)
    np.testing.assert_array_equal(gradient, expected)
    np.testing.assert_array_equal(lowering.compile(lowering.grad(loss, "x"))(X), expected)
    assert tangent == np.sum(WEIGHTS * expected)


def by_two_keys(a: xb.XlaOp, b: xb.XlaOp, c: xb.XlaOp, d: xb.XlaOp, *_: xb.XlaOp) -> xb.XlaOp:
    """The first key descending, then the second one ascending."""
    return (a > b) | (xb.eq(a, b) & (c < d))


def test_sort_by_two_keys_moves_the_values() -> None:
    keys = np.array([[1.0, 2, 1, 2, 1]] * 3)
    second = np.array([[5, 4, 3, 2, 1], [1, 2, 3, 4, 5], [2, 9, 1, 3, 3]], np.int32)

    @xb.computation(xb.f64[SIZES], xb.s32[SIZES], xb.f64[SIZES])
    def loss(x: xb.XlaOp, i: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        x, i, y = xb.sort([x, i, y], by_two_keys, 1, is_stable=True)
        return lib.sum(x * y * y * x.builder.constant(WEIGHTS))

    def reference(x: Any, y: Any) -> Any:
        order = np.lexsort((second, -keys), axis=1)
        x, y = (jnp.take_along_axis(v, order, axis=1) for v in (x, y))
        return jnp.sum(x * y * y * WEIGHTS)

    function = lowering.to_jax(loss)

    @jax.jit
    def derivatives() -> Any:
        # Only the values depend on the argument of the hessian: the keys have no tangents.
        return (
            *jax.grad(function, (0, 2))(keys, second, X),
            jax.hessian(lambda y: function(keys, second, y))(X),
        )

    expected = jax.jit(
        lambda: (*jax.grad(reference, (0, 1))(keys, X), jax.hessian(reference, 1)(keys, X))
    )
    for one, other in zip(derivatives(), expected(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sorts_that_jax_lowered() -> None:
    """jax compares several keys by selects, and the program is read from its text."""

    def function(x: Any, y: Any) -> Any:
        a, b, c = jax.lax.sort((jnp.round(x), y, x * y), num_keys=2)
        return jnp.sum((b + c * c) * WEIGHTS) + jnp.sum(a)

    text = jax.jit(function).lower(X, -X).as_text()
    read = lowering.to_jax(lowering.to_computation(lowering.load(text)))
    gradients = (jax.jit(jax.grad(each, (0, 1)))(X, -X) for each in (read, function))
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("is_stable", [False, True])
def test_equal_keys_keep_values_and_tangents_together(is_stable: bool) -> None:
    sizes = (200,)

    @xb.computation(xb.f64[sizes], xb.f64[sizes])
    def moved(key: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        return xb.sort([key, y], lambda a, b, *_: a > b, 0, is_stable)[1]

    random = np.random.default_rng(1)
    keys, y = random.integers(0, 3, sizes).astype(np.float64), random.normal(size=sizes)
    _, tangent = jax.jvp(lambda y: lowering.to_jax(moved)(keys, y), (y,), (2 * y,))
    value, pull_back = jax.vjp(lambda y: lowering.to_jax(moved)(keys, y), y)
    np.testing.assert_array_equal(tangent, 2 * value)
    np.testing.assert_array_equal(pull_back(value)[0], y)


def test_vmap_of_a_sort_is_a_sort() -> None:
    @xb.computation(xb.f64[SIZES], xb.f64[SIZES])
    def loss(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        x, y = xb.sort([x, y], lambda a, b, *_: a > b, 0)
        return lib.sum(x * y * x.builder.constant(WEIGHTS))

    function = lowering.to_jax(loss)
    gradient = jax.jit(jax.grad(function, (0, 1)))
    batch = np.stack([X, -X])
    mapped = jax.jit(jax.vmap(jax.vmap(gradient, (0, None)), (None, 0)))
    for position, results in enumerate(mapped(batch, batch)):
        for i, j in np.ndindex(2, 2):
            expected = gradient(batch[j], batch[i])[position]
            np.testing.assert_array_equal(results[i, j], expected)
    text = mapped.lower(batch, batch).as_text()
    assert text.count("stablehlo.sort") == 1
    assert "stablehlo.while" not in text
    vectorized = lowering.vmap(loss, 2, in_axes=(0, None))
    expected = np.array([function(each, X) for each in batch])
    np.testing.assert_array_equal(lowering.compile(vectorized)(batch, X), expected)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    "dtype", mostly_slow([xb.f64, xb.f32, xb.bf16, xb.f16, xb.f8e4m3fn, xb.c64], 1)
)
def test_top_k(dtype: xb.PrimitiveType, largest: bool) -> None:
    @xb.computation(dtype[SIZES])
    def first(x: xb.XlaOp) -> xb.XlaOp:
        return xb.top_k(x, 2, largest=largest)

    function = lowering.to_jax(first)
    x = X.astype(dtype.dtype)
    weights = np.arange(1, 7).reshape(3, 2).astype(dtype.dtype)

    @jax.jit
    def derivatives(x: Any) -> Any:
        (_, indices), (tangent, _) = jax.jvp(function, (x,), (-x,))
        _, pull_back = jax.vjp(function, x)
        zeros = np.zeros(indices.shape, jax.dtypes.float0)
        return indices, tangent, *pull_back((weights, zeros))

    indices, tangent, gradient = derivatives(x)
    np.testing.assert_array_equal(tangent, np.take_along_axis(-x, np.asarray(indices), axis=1))
    expected = np.zeros_like(x)
    np.put_along_axis(expected, np.asarray(indices), weights, axis=1)
    np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize("dimension", [0, 1])
def test_approx_top_k(dimension: int) -> None:
    """The sizes are so large that only one element of each window remains before the sort."""
    shape = xb.f64[(3000, 2) if dimension == 0 else (2, 3000)]

    @xb.computation(shape)
    def loss(x: xb.XlaOp) -> xb.XlaOp:
        b = x.builder
        operands = [x, b.iota(shape.with_element_type(xb.s32), dimension)]
        inits = [lib.min_value(b, xb.f64), b.constant(-1, xb.s32)]
        order = lib.create_scalar_gt_computation([xb.f64, xb.s32])
        values, _ = lib.approx_top_k(operands, inits, 3, dimension, order, 0.5)
        return lib.sum(values * values)

    x = np.random.default_rng(0).permutation(np.arange(6000.0)).reshape(shape.dimensions)
    gradient = jax.jit(jax.grad(lowering.to_jax(loss)))(x)
    found = np.count_nonzero(gradient, axis=dimension)
    assert found.tolist() == [3, 3]
    np.testing.assert_array_equal(gradient, np.where(gradient == 0, 0, 2 * x))


def test_positions_out_of_bounds() -> None:
    """Initial values among the results of ApproxTopK have no position, and so no tangent."""
    positions = jnp.array([[-1, 2], [0, -1], [3, 0]])
    found = along(jnp.asarray(X[:, :3]), positions, 1, is_approximate=True)
    np.testing.assert_array_equal(found, [[0, 2], [1, 0], [0, -2]])


def test_approx_max_k_of_jax() -> None:
    def function(x: Any) -> Any:
        values, _ = jax.lax.approx_max_k(x, 2, reduction_dimension=0)
        return jnp.sum(values * values)

    computation = lowering.from_jax(function, xb.f64[SIZES])
    expected = jax.grad(function)(X)
    np.testing.assert_array_equal(jax.grad(lowering.to_jax(computation))(X), expected)
    (compiled,) = lowering.compile(lowering.grad(computation))(X)
    np.testing.assert_array_equal(compiled, expected)


BOUNDS: dict[str, tuple[Any, Any]] = {
    "scalars": (np.float64(-1), np.float64(4)),
    "the lower one a scalar": (np.float64(-1), np.full(SIZES, 4.0)),
    "the upper one a scalar": (np.full(SIZES, -1.0), np.float64(4)),
    "arrays": (np.full(SIZES, -1.0), np.full(SIZES, 4.0)),
    "exchanged": (np.float64(4), np.float64(-1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_clamp(bounds: tuple[Any, Any]) -> None:
    """jax's gradients, with elements inside, outside and at both bounds."""
    low, high = bounds

    @xb.computation(xb.f64[low.shape], xb.f64[SIZES], xb.f64[high.shape])
    def loss(low: xb.XlaOp, x: xb.XlaOp, high: xb.XlaOp) -> xb.XlaOp:
        return lib.sum(xb.sin(xb.clamp(low, x, high)) * x.builder.constant(WEIGHTS))

    def reference(low: Any, x: Any, high: Any) -> Any:
        low, high = (jnp.broadcast_to(bound, SIZES) for bound in (low, high))
        return jnp.sum(jnp.sin(jax.lax.clamp(low, x, high)) * WEIGHTS)

    every = (0, 1, 2)
    function = lowering.to_jax(loss)
    compiled = lowering.compile(lowering.grad(loss))(low, X, high)

    @jax.jit
    def derivatives(low: Any, x: Any, high: Any) -> Any:
        """Gradients, second derivatives, and gradients of a batch: ours and jax's."""
        return [
            (
                jax.grad(each, every)(low, x, high),
                jax.hessian(each, every)(low, x, high),
                jax.vmap(jax.grad(each), (None, 0, None))(low, jnp.stack([x, -x]), high),
            )
            for each in (function, reference)
        ]

    results, expected = derivatives(low, X, high)
    for one, other in zip(
        jax.tree.leaves((results, compiled)), jax.tree.leaves((expected, expected[0])), strict=True
    ):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-14)
