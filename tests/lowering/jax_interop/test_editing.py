"""lowering.edit_jax: programs of jax that are edited before XLA compiles them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import builder as xb
import lowering

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)


def doubled(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
    """Replace tanh(x) by x + x."""
    return operands[0] + operands[0] if op.opcode == "tanh" else None


def without_tanh(computation: xb.XlaComputation) -> xb.XlaComputation:
    return computation.replace(doubled, nested=True)


def test_nesting_static_and_donated_arguments() -> None:
    def step(params: Any, x: Any, power: int) -> Any:
        return {"y": jnp.tanh(x) * params["w"] ** power}, x + 1

    jitted = jax.jit(step, static_argnames="power", donate_argnums=1)
    edits = []

    def edit(computation: xb.XlaComputation) -> xb.XlaComputation:
        edits.append(computation)
        return without_tanh(computation)

    edited = lowering.edit_jax(jitted, edit)
    params = {"w": np.float32(3)}
    for power in (2, 3, 2):
        x = jnp.asarray(X)
        result, following = edited(params, x, power=power)
        np.testing.assert_allclose(result["y"], 2 * X * 3**power, rtol=1e-6)
        np.testing.assert_array_equal(following, X + 1)
        assert x.is_deleted()
    assert len(edits) == 2  # one for each static value
    assert edits[0].aliases
    edited(params, jnp.ones((2, 2)), power=2)
    assert len(edits) == 3


def test_shardings() -> None:
    devices = np.array(lowering.devices("cpu")[:2])
    if devices.size < 2:
        pytest.skip("needs two CPU devices")
    sharding = NamedSharding(Mesh(devices, ("rows",)), PartitionSpec("rows"))
    edited = lowering.edit_jax(lambda x: jnp.tanh(x) @ x.T, without_tanh)
    result = edited(jax.device_put(X, sharding))
    np.testing.assert_allclose(result, 2 * X @ X.T, rtol=1e-5)
    assert result.sharding.is_equivalent_to(sharding, 2)
    np.testing.assert_allclose(edited(X), 2 * X @ X.T, rtol=1e-5)


def test_on_another_device() -> None:
    device = lowering.devices("cpu")[-1]
    result = lowering.edit_jax(jnp.tanh, without_tanh)(jax.device_put(X, device))
    assert result.devices() == {device}
    np.testing.assert_array_equal(result, 2 * X)


def test_inside_transformations_of_jax() -> None:
    def scaled(params: Any, x: Any, power: int) -> Any:
        return {"y": jnp.tanh(x) * params["w"] ** power}

    edited = lowering.edit_jax(jax.jit(scaled, static_argnames="power"), without_tanh)
    params = {"w": np.float32(3)}
    inside = jax.jit(lambda params, x: edited(params, x, power=2)["y"])(params, X)
    np.testing.assert_array_equal(inside, edited(params, X, power=2)["y"])
    gradient = jax.grad(lambda params: edited(params, X, power=2)["y"][0].sum())(params)
    np.testing.assert_allclose(gradient["w"], (4 * 3 * X[0]).sum(), rtol=1e-5)
    rows = jax.vmap(lowering.edit_jax(jnp.tanh, without_tanh))(X)
    np.testing.assert_array_equal(rows, 2 * X)


def test_wrong_edits() -> None:
    other = xb.computation(xb.f32[2])(lambda x: x)
    for edit, message in (
        (lambda c: None, "must return an XlaComputation, got None"),
        (lambda c: other, r"must keep the parameters and the result, \(x: f32\[8,4\]\)"),
    ):
        with pytest.raises(xb.OperandError, match=f"edit_jax: edit {message}"):
            lowering.edit_jax(jnp.tanh, edit)(X)
    with pytest.raises(xb.OperandError, match="edit must be a function"):
        lowering.edit_jax(jnp.tanh, 3)  # type: ignore[arg-type]
    with pytest.raises(xb.OperandError, match="function must be a function of jax"):
        lowering.edit_jax(other, without_tanh)


def test_errors_name_edit_jax() -> None:
    def captures(x: Any, y: Any) -> Any:
        return lowering.edit_jax(lambda x: jnp.tanh(x) * y, without_tanh)(x)

    def calls(x: Any) -> Any:
        return jax.pure_callback(np.sin, x, x)

    with pytest.raises(
        lowering.LoweringError, match=r"^edit_jax: .* a value of an enclosing jax t"
    ):
        jax.jit(captures)(X, X)
    for called in (lowering.edit_jax(calls, without_tanh), jax.jit(lowering.edit_jax(calls, id))):  # type: ignore[arg-type]
        with pytest.raises(
            lowering.LoweringError, match=r"^edit_jax: .*\nfix: call jax.pure_callb"
        ):
            called(X)
