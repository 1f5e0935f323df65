"""Calls of Python functions and custom calls in `to_jax`."""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import numpy as np
import pytest

import builder as xb
import lowering
from lowering.errors import LoweringError

X = np.array([1, 2, 3], np.float32)


def test_python_call() -> None:
    b = xb.XlaBuilder("calling")
    x = b.parameter(xb.f32[3], "x")
    called = xb.python_call(lambda v: (v[::-1] * 2, np.int32(v.size)), [x], "(f32[3], s32[])")
    function = lowering.to_jax(b.build(called))
    values, size = jax.jit(function)(X)
    np.testing.assert_array_equal(values, [6, 4, 2])
    assert size == 3
    rows, _ = jax.vmap(function)(np.stack([X, X + 1]))
    np.testing.assert_array_equal(rows, [[6, 4, 2], [8, 6, 4]])


def test_python_call_with_side_effect() -> None:
    seen: list[Any] = []
    b = xb.XlaBuilder("logging")
    x = b.parameter(xb.f32[3], "x")

    def log(v: Any) -> Any:
        seen.append(v.copy())
        return v

    xb.python_call(log, [x], xb.f32[3], has_side_effect=True)
    function = jax.jit(lowering.to_jax(b.build(x + 1)))
    np.testing.assert_array_equal(function(X), X + 1)
    jax.effects_barrier()
    np.testing.assert_array_equal(seen, [X])


def test_wrong_result_of_a_python_call() -> None:
    b = xb.XlaBuilder("calling")
    x = b.parameter(xb.f32[3], "x")
    function = jax.jit(lowering.to_jax(b.build(xb.python_call(lambda v: v[:2], [x], xb.f32[3]))))
    with pytest.raises(Exception, match="returned a result that differs from its declaration"):
        jax.block_until_ready(function(X))


def test_custom_call() -> None:
    Pointer = ctypes.POINTER(ctypes.c_float)

    @ctypes.CFUNCTYPE(None, Pointer, ctypes.POINTER(Pointer))
    def doubled(out: Any, inputs: Any) -> None:
        for i in range(3):
            out[i] = inputs[0][i] * 2

    lowering.register_custom_call_target("to_jax_doubled", doubled)
    b = xb.XlaBuilder("calling")
    x = b.parameter(xb.f32[3], "x")
    computation = b.build(xb.custom_call("to_jax_doubled", x, xb.f32[3]) + 1)
    function = lowering.to_jax(computation)
    np.testing.assert_array_equal(jax.jit(function)(X), 2 * X + 1)
    np.testing.assert_array_equal(jax.vmap(function)(np.stack([X, X]))[1], 2 * X + 1)
    with pytest.raises(LoweringError, match=r"custom_call, recorded at .* has no derivative"):
        jax.grad(lambda v: function(v).sum())(X)


def test_custom_call_with_side_effect() -> None:
    Pointer = ctypes.POINTER(ctypes.c_float)
    seen = []

    @ctypes.CFUNCTYPE(None, Pointer, ctypes.POINTER(Pointer))
    def noting(out: Any, inputs: Any) -> None:
        out[0] = inputs[0][0]
        seen.append(inputs[0][0])

    lowering.register_custom_call_target("to_jax_noting", noting)
    b = xb.XlaBuilder("calling")
    x = b.parameter(xb.f32[()], "x")

    def body(state: xb.XlaOp) -> xb.XlaOp:
        xb.custom_call("to_jax_noting", state[1], xb.f32[()], has_side_effect=True)
        return xb.tuple(state[0] + 1, state[1] * 2.0)

    loop = xb.while_(lambda s: s[0] < 3, body, xb.tuple(b.constant(0, xb.s32), x))
    xb.custom_call("to_jax_noting", x, xb.f32[()], has_side_effect=True)
    function = jax.jit(lowering.to_jax(b.build(loop[1])))
    assert function(1.0) == 8
    jax.effects_barrier()
    assert sorted(seen) == [1, 1, 2, 4]


def test_tokens_order_nothing() -> None:
    b = xb.XlaBuilder("tokens")
    x = b.parameter(xb.f32[3], "x")
    token = xb.after_all([b.create_token()])
    function = lowering.to_jax(b.build(xb.tuple(x, token)))
    result, none = jax.jit(function)(X)
    np.testing.assert_array_equal(result, X)
    assert none is None
