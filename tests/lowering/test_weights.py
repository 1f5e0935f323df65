"""Programs with bound and with hoisted weights compute the same, and are called alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import builder as xb
import lowering

PARAMS = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4) / 7,
    "layers": [np.arange(4, dtype=np.float32), np.ones(2, np.float32)],
}
X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def model(params: Any, x: Any, *, scale: Any) -> Any:
    h = jnp.tanh(x @ params["w"] + params["layers"][0])
    return {"y": h * scale, "sum": h.sum()}


@pytest.fixture(scope="module")
def imported() -> xb.XlaComputation:
    return lowering.from_jax(model, PARAMS, X, scale=np.float32(2))


def check(computation: xb.XlaComputation, *args: Any, **named: Any) -> None:
    result = lowering.compile(computation)(*args, **named)
    expected = model(PARAMS, X, scale=2.0)
    assert result.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(result[name], value, rtol=1e-6)


def test_nested_arguments_of_jax(imported: xb.XlaComputation) -> None:
    bound = xb.bind(imported, params=PARAMS)
    check(bound, X, scale=np.float32(2))
    hoisted, arrays = xb.hoist_constants(bound, at_least=16)
    check(hoisted, X, scale=np.float32(2), **arrays)
    again = xb.bind(hoisted, arrays)
    assert again.annotations == bound.annotations
    assert again.diff(bound).equal
    partly = xb.bind(imported, {"params['w']": PARAMS["w"], "scale": 2.0})
    check(partly, {"layers": PARAMS["layers"]}, X)
    in_list = xb.bind(imported, {"params['layers'][0]": PARAMS["layers"][0]}, x=X)
    check(in_list, {"w": PARAMS["w"], "layers": [None, PARAMS["layers"][1]]}, scale=np.float32(2))


def test_constants_in_a_scan() -> None:
    weights = np.array([[0.5, 1], [1, 0.25]], np.float32)

    @xb.computation(xb.f32[5, 2])
    def recurrent(x: xb.XlaOp) -> xb.XlaOp:
        def step(element: xb.XlaOp, state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
            new = xb.tanh(xb.dot(state, state.builder.constant(weights)) + element)
            return new, new

        return xb.scan(x, x.builder.constant(np.zeros(2, np.float32)), step, 0)

    hoisted, arrays = xb.hoist_constants(recurrent, at_least=8)
    assert [array.shape for array in arrays.values()] == [(2,), (2, 2)]
    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2)
    state, states = np.zeros(2, np.float32), []
    for element in x:
        state = np.tanh(state @ weights + element)
        states.append(state)
    for result in (
        lowering.compile(hoisted)(x, **arrays),
        lowering.compile(xb.bind(hoisted, arrays))(x),
        lowering.compile(lowering.from_hlo(str(hoisted)))(x, *arrays.values()),
    ):
        np.testing.assert_allclose(result[0], states, rtol=1e-5)
        np.testing.assert_allclose(result[1], state, rtol=1e-5)


def test_a_bound_parameter_keeps_its_sharding() -> None:
    mesh = xb.Mesh({"x": 1})
    b = xb.XlaBuilder("partitioned")
    x = b.parameter(xb.f32[4], "x", sharding=mesh.sharding("x"))
    w = b.parameter(xb.f32[4], "w", sharding=mesh.sharding("x"))
    bound = xb.bind(b.build(x * w), w=np.arange(4, dtype=np.float32))
    assert str(lowering.lower(bound)).count('<@mesh, [{"x"}]>') == 2
    result = lowering.compile(bound)(np.ones(4, np.float32))
    np.testing.assert_array_equal(jax.device_get(result), np.arange(4))


def test_a_safetensors_file(tmp_path: Path) -> None:
    b = xb.XlaBuilder("half")
    x, w = b.parameter(xb.bf16[3], "x"), b.parameter(xb.bf16[3], "layer/w")
    computation = b.build(x * w)
    weights = {"layer/w": np.arange(3).astype(ml_dtypes.bfloat16)}
    hoisted, arrays = xb.hoist_constants(xb.bind(computation, weights), at_least=1)
    save_file(arrays, tmp_path / "weights.safetensors")
    loaded = load_file(tmp_path / "weights.safetensors")
    again = xb.bind(hoisted, loaded)
    assert again.diff(xb.bind(computation, weights)).equal
