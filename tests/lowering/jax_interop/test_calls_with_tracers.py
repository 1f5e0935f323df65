"""Jitted functions, executables and modules called in jax.jit, jax.grad and jax.vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from builder import lib

X = np.array([0.5, -1.0, 2.0], np.float32)


@lowering.jit
def model(params: dict[str, xb.XlaOp], x: xb.XlaOp) -> Any:
    y = xb.tanh(params["w"] * x)
    return {"loss": lib.sum(y), "y": y}


def test_transformations_of_a_jitted_function() -> None:
    params = {"w": X}
    expected = model(params, X)
    recorded = model.cache_info().recorded
    jitted = jax.jit(lambda params, x: model(params, x=x))(params, X)
    assert jitted.keys() == {"loss", "y"}
    np.testing.assert_array_equal(jitted["y"], expected["y"])
    gradient = jax.grad(lambda params: model(params, X)["loss"])(params)
    np.testing.assert_allclose(gradient["w"], X * (1 - np.tanh(X * X) ** 2), rtol=1e-3)
    rows = jax.vmap(model, in_axes=({"w": None}, 0))(params, np.stack([X, 2 * X]))
    np.testing.assert_allclose(rows["y"][1], np.tanh(2 * X * X), rtol=1e-6)
    assert model.cache_info().recorded == recorded == 1


def test_numbers_and_static_arguments() -> None:
    @lowering.jit(static=["times"])
    def power(x: xb.XlaOp, factor: xb.XlaOp, times: int = 1) -> xb.XlaOp:
        for _ in range(times):
            x = x * factor
        return x

    assert jax.grad(power)(3.0, 2.0) == 2
    assert jax.grad(lambda x: power(x, 2.0, times=3))(3.0) == 8
    assert jax.grad(lambda f: power(3.0, f, times=2))(5.0) == 30


def test_64_bits() -> None:
    square = lowering.jit(lambda x: x * x)
    with jax.enable_x64(True):
        result = jax.jit(square)(np.float64(1 + 1e-12))
    assert np.asarray(result) == np.float64(1 + 1e-12) ** 2


def test_a_call_inside_a_computation() -> None:
    """The cache of a jitted function serves arrays, tracers and ops."""
    double = lowering.jit(lambda x: x + x)
    assert jax.jit(double)(X)[0] == double(X)[0] == 1
    outer = lowering.jit(lambda x: double(x) * 2.0)
    assert jax.jit(outer)(X)[0] == 2


@xb.computation(xb.f32[3])
def twice(x: xb.XlaOp) -> xb.XlaOp:
    return x * 2.0


@each_row(
    "function, fix",
    [
        (lowering.compile(twice), "lowering.to_jax(computation) in jax.jit, jax.grad and other"),
        (lowering.lower(twice), "lowering.to_jax(lowering.to_computation(module))(...)"),
        (twice, "lowering.to_jax(computation)(...)"),
        (
            lowering.jit(lambda x: x, device="cpu", num_partitions=2),
            "lowering.to_jax(function.computation(...)) in transformations of jax",
        ),
    ],
)
def test_others_name_to_jax(function: Callable[..., Any], fix: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        jax.jit(lambda x: function(x))(X)
    assert f"\nfix: call {fix}" in str(caught.value)
    with pytest.raises(xb.XlaError, match=r"record ops outside of .*call lowering\.to_jax"):
        jax.jit(lambda x: xb.XlaBuilder().parameter(xb.f32[3]) + x)(X)
