"""stop_gradient, of jax and of the library, in all derivatives and after round trips."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import builder as xb
import lowering
from builder import lib
from lowering.errors import LoweringError
from lowering.legalize import legalize

X = np.array([2, 3, -0.5], np.float64)
STOP = lax.stop_gradient


def in_scan(x: Any) -> Any:
    return lax.scan(lambda y, _: (y * STOP(y) + x, None), x, None, length=3)[0]


def in_while(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, y: y * STOP(jnp.sin(y)), x)


def in_cond(x: Any) -> Any:
    return lax.cond(x[0] > 0, lambda y: y * STOP(y), lambda y: y, x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda x: x * STOP(x),
    "straight_through": lambda x: x**2 + STOP(jnp.round(x) - x),
    "scan": in_scan,
    "while": in_while,
    "cond": in_cond,
    "checkpoint": lambda x: jax.checkpoint(lambda y: y * STOP(jnp.sin(y)))(x),
    "vmap": jax.vmap(lambda y: y * STOP(jnp.exp(y))),
    "jit": jax.jit(lambda y: y * STOP(jnp.exp(y))),
    "gradient": jax.grad(lambda x: jnp.sum(x**3 * STOP(x))),
    "custom_jvp": lambda x: jax.nn.relu(x) * STOP(jax.nn.softmax(x)),
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    with jax.enable_x64(True):
        return {
            name: jax.jit(jax.grad(lambda x, f=f: jnp.sum(f(x) * x)))(X)
            for name, f in FUNCTIONS.items()
        }


def test_gradients_of_applied_functions(expected: dict[str, Any]) -> None:
    b = xb.XlaBuilder("all")
    x = b.parameter(xb.f64[3], "x")
    found = [
        lowering.gradients(lib.sum(lowering.apply(function, x) * x), x)
        for function in FUNCTIONS.values()
    ]
    results = lowering.compile(b.build(xb.tuple(*found)))(X)
    for name, result in zip(FUNCTIONS, results, strict=True):
        np.testing.assert_allclose(result, expected[name], rtol=1e-12, err_msg=name)


def test_gradients_of_computations(expected: dict[str, Any]) -> None:
    """By grad, by jax.grad of to_jax, and of a computation that is inlined or copied."""

    def all_losses(x: Any) -> Any:
        return jnp.stack([jnp.sum(f(x) * x) for f in FUNCTIONS.values()])

    c = lowering.from_jax(all_losses, xb.f64[3])
    reference = np.stack(list(expected.values()))
    with jax.enable_x64(True):
        jacobian = jax.jit(jax.jacrev(lowering.to_jax(c)))(X)
    np.testing.assert_allclose(jacobian, reference, rtol=1e-12)
    weights = np.arange(1, 1 + len(FUNCTIONS), dtype=np.float64)
    for copy in (c, c.replace(lambda *_: None), c.extract(c.root)):
        b = xb.XlaBuilder("inlined")
        x = b.parameter(xb.f64[3], "x")
        loss = xb.dot(xb.inline(copy, x), b.constant(weights))
        gradient = lowering.compile(b.build(lowering.gradients(loss, x)))(X)
        np.testing.assert_allclose(gradient, weights @ reference, rtol=1e-12)


def test_second_derivatives() -> None:
    def slope(x: Any) -> Any:
        return jax.grad(lambda x: jnp.sum(x**3 * STOP(x**2)))(x)

    with jax.enable_x64(True):
        reference = jax.grad(lambda x: jnp.sum(slope(x)))(X)
    b = xb.XlaBuilder("twice")
    x = b.parameter(xb.f64[3], "x")
    first = lowering.gradients(lowering.apply(lambda x: jnp.sum(x**3 * STOP(x**2)), x), x)
    second = lowering.gradients(lib.sum(first), x)
    np.testing.assert_allclose(lowering.compile(b.build(second))(X), reference, rtol=1e-12)


@xb.computation(xb.f32[3])
def stopped(x: xb.XlaOp) -> xb.XlaOp:
    return lib.sum(x * lib.stop_gradient(xb.exp(x)))


@pytest.mark.parametrize("form", ["text.mlir", "bytecode.mlirbc", "hlo"])
def test_a_round_trip(form: str, tmp_path: Path) -> None:
    if form == "hlo":
        again = lowering.from_hlo(stopped.to_hlo_text())
    else:
        lowering.lower(stopped).save(tmp_path / form)
        again = lowering.to_computation(tmp_path / form)
    values = X.astype(np.float32)
    (gradient,) = lowering.compile(lowering.grad(again))(values)
    np.testing.assert_allclose(gradient, np.exp(values), rtol=1e-6)


def test_a_traced_function() -> None:
    """jax lowers stop_gradient to no operation; what this library lowers has one."""
    traced = jax.jit(lambda x: jnp.sum(x * STOP(jnp.exp(x)))).trace(X.astype(np.float32))
    c = lowering.to_computation(traced)
    (gradient,) = lowering.compile(lowering.grad(c))(X.astype(np.float32))
    np.testing.assert_allclose(gradient, np.exp(X), rtol=1e-6)


def test_the_barrier_is_removed_before_compiling() -> None:
    module = lowering.lower(stopped)
    assert "optimization_barrier" in module.text
    assert "optimization_barrier" not in str(legalize(module.module, "stopped", "cpu").operation)


def test_tuples_and_integers() -> None:
    b = xb.XlaBuilder("tuples")
    x = b.parameter(xb.f32[3], "x")
    n, y = lib.stop_gradient(xb.tuple(b.constant(2, xb.s32), x))
    loss = lib.sum(x * y) * xb.convert(n, xb.f32)
    gradient = lowering.compile(b.build(lowering.gradients(loss, x)))(X.astype(np.float32))
    np.testing.assert_array_equal(gradient, 2 * X)


@jax.custom_vjp
def reversed_gradient(x: Any) -> Any:
    return x


reversed_gradient.defvjp(lambda x: (x, None), lambda _, dy: (-dy,))


def test_an_identity_with_a_rule() -> None:
    """jax lowers it to no operation. A file does not have the rule: its derivative is refused."""
    c = lowering.from_jax(lambda x: jnp.sum(reversed_gradient(x) * x), xb.f32[3])
    values = X.astype(np.float32)
    (gradient,) = lowering.compile(lowering.grad(c))(values)
    np.testing.assert_array_equal(gradient, np.zeros(3))
    again = lowering.to_computation(lowering.lower(c))
    np.testing.assert_allclose(lowering.compile(again)(values), np.sum(X * X))
    with pytest.raises(LoweringError, match=r"grad: optimization_barrier, .*files do not have"):
        lowering.grad(again)
