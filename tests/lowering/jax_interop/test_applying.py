"""lowering.apply: jax functions called on ops."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import builder as xb
import lowering

rng = np.random.default_rng(0)
X = rng.uniform(0.1, 0.9, (4, 8)).astype(np.float32)
Y = rng.uniform(0.1, 0.9, (4, 8)).astype(np.float32)


def test_results_have_the_structure_of_the_function() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[4, 8], "x")
    assert lowering.apply(lambda v: v, x) is x
    assert lowering.apply(lambda v: None, x) is None
    assert lowering.apply(lambda v: (), x) == ()
    count = len(x.builder.ops)
    result = lowering.apply(lambda v: {"a": v["p"] + 1, "b": [v["p"]]}, {"p": x})
    assert result["b"] == [x]
    assert result["a"].shape == x.shape
    # A constant, its broadcast and the sum; no tuple.
    assert [op.opcode for op in x.builder.ops[count:]] == ["constant", "broadcast_in_dim", "add"]


def test_ops_have_the_line_of_the_call() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[4, 8], "x")
    for _ in range(2):  # the second time from the cache
        count = len(x.builder.ops)
        _, line = lowering.apply(jax.nn.softmax, x), sys._getframe().f_lineno
        sources = [op.source for op in x.builder.ops[count:]]
        assert all(source is not None for source in sources)
        lines = {source.line for source in sources if source is not None}
        assert lines == {line}


def test_other_arguments_are_static() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[4, 8], "x")
    assert lowering.apply(jnp.sum, x, axis=1).shape == xb.f32[4]
    assert lowering.apply(jnp.sum, x, axis=0).shape == xb.f32[8]
    assert lowering.apply(jnp.sum, x, axis=False, keepdims=True).shape == xb.f32[1, 8]
    # 1 and 1.0 are equal, and two traces.
    i = x.builder.parameter(xb.s32[3], "i")
    assert lowering.apply(jnp.add, i, 1).shape == xb.s32[3]
    assert lowering.apply(jnp.add, i, 1.0).shape == xb.f32[3]
    # An array has no hash; its value is part of the program.
    for value in (1.0, 2.0):
        count = len(x.builder.ops)
        lowering.apply(lambda a, b: a + b, x, np.full(8, value, np.float32))
        (constant,) = [op for op in x.builder.ops[count:] if op.opcode == "constant"]
        np.testing.assert_array_equal(constant.attributes["value"], np.full(8, value))


def test_a_function_is_traced_once() -> None:
    traces = []

    def traced(x: Any) -> Any:
        traces.append(x)
        return jax.jit(jnp.sin)(x)

    b = xb.XlaBuilder()
    x, y = b.parameter(xb.f32[2]), b.parameter(xb.f32[2])
    calls = [lowering.apply(traced, x), lowering.apply(traced, y)]
    assert len(traces) == 1
    assert calls[0].called_computations == calls[1].called_computations
    with jax.default_matmul_precision("highest"):
        lowering.apply(traced, x)
    lowering.apply(traced, b.parameter(xb.f32[3]))
    assert len(traces) == 3


def test_64_bit_types() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f64[3])
    y = lowering.apply(jax.nn.gelu, x)
    assert y.shape == xb.f64[3]
    value = np.array([-1.5, 0.0, 2.5])
    with jax.enable_x64(True):
        expected = jax.nn.gelu(value)
    np.testing.assert_allclose(lowering.compile(b.build(y))(value), expected, rtol=1e-14)


def test_in_bodies_of_loops() -> None:
    b = xb.XlaBuilder()
    x, w = b.parameter(xb.f32[3], "x"), b.parameter(xb.f32[3], "w")

    def body(state: Any) -> Any:
        i, v = state
        return i + 1, lowering.apply(lambda v, w: jnp.tanh(v) * w, v, w)

    result = xb.while_(lambda state: state[0] < 3, body, (b.constant(0, xb.s32), x))
    run = lowering.compile(b.build(xb.get_tuple_element(result, 1)))
    expected = X[0, :3]
    for _ in range(3):
        expected = np.tanh(expected) * Y[0, :3]
    np.testing.assert_allclose(run(X[0, :3], Y[0, :3]), expected, rtol=1e-5)


def test_wrong_arguments() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2])
    count = len(b.ops)

    def calls(x: Any) -> Any:
        return jax.pure_callback(np.sin, x, x)

    for call, kind, message in (
        (lambda: lowering.apply(jnp.sin, 1.0), xb.OperandError, "at least one operand"),
        (lambda: lowering.apply(3, x), xb.OperandError, "apply: function must be"),
        (lambda: lowering.apply(jnp.sin, xb.tuple(x)), xb.OperandError, "fix: pass the elements"),
        (
            lambda: lowering.apply(jnp.sin, b.parameter(xb.f32["<=3"], "d")),
            xb.OperandError,
            "apply: jax has no bounded sizes",
        ),
        (lambda: lowering.apply(calls, x), lowering.LoweringError, "apply: the function calls"),
        (lambda: lowering.apply(lambda v: v + x, x), xb.OperandError, "add"),
    ):
        with pytest.raises(kind, match=message):
            call()
    assert [op.opcode for op in b.ops[count:]] == ["tuple", "parameter"]
    with pytest.raises(ValueError, match="axis 5 is out of bounds"):  # jax's own error
        lowering.apply(jnp.sum, x, axis=5)

    def signed(value: Any) -> Any:
        return value if value[0] > 0 else -value

    # It names the user's function and its argument.
    line = signed.__code__.co_firstlineno
    with pytest.raises(jax.errors.TracerBoolConversionError, match=f"signed at {__file__}:{line}"):
        lowering.apply(signed, x)
