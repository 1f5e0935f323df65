"""The forward pass is recorded once: products in graphs with gradients, compared with jax's."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import builder as xb
import lowering
from builder import lib
from lowering.jax_interop import pullbacks

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(5, 4, 8)).astype(np.float32)
W = (RANDOM.normal(size=(8, 8)) / 4).astype(np.float32)


def products(computation: xb.XlaComputation) -> int:
    every = (computation, *computation.called_computations())
    return sum(op.opcode == "dot_general" for each in every for op in each.ops)


def scan(x: xb.XlaOp, w: xb.XlaOp) -> xb.XlaOp:
    def step(x: xb.XlaOp, h: xb.XlaOp) -> Any:
        new = xb.tanh(x + h @ w)
        return new * x, new

    outputs, last = xb.scan([x], [x[0] * 0.0], step, 0)
    return lib.sum(outputs) + lib.sum(last * last)


def scan_of_jax(x: Any, w: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        new = jnp.tanh(x + h @ w)
        return new, new * x

    last, outputs = lax.scan(step, x[0] * 0, x)
    return outputs.sum() + (last * last).sum()


def while_(x: xb.XlaOp, w: xb.XlaOp) -> xb.XlaOp:
    zero = x.builder.constant(0, xb.s32)
    _, h = xb.while_(
        lambda s: s[0] < 5, lambda s: (s[0] + 1, xb.tanh(x[s[0]] + s[1] @ w)), (zero, x[0] * 0.0)
    )
    return lib.sum(h * h)


def while_of_jax(x: Any, w: Any) -> Any:
    h = lax.fori_loop(0, 5, lambda i, h: jnp.tanh(x[i] + h @ w), x[0] * 0)
    return (h * h).sum()


@xb.computation
def layer(x: xb.XlaOp, w: xb.XlaOp) -> xb.XlaOp:
    return xb.tanh(x @ w)


def call(x: xb.XlaOp, w: xb.XlaOp) -> xb.XlaOp:
    y = x[0]
    for _ in range(4):
        y = layer(y, w)
    return lib.sum(y * y)


def call_of_jax(x: Any, w: Any) -> Any:
    function = jax.jit(lambda x, w: jnp.tanh(x @ w))
    y = x[0]
    for _ in range(4):
        y = function(y, w)
    return (y * y).sum()


def conditional(x: xb.XlaOp, w: xb.XlaOp) -> xb.XlaOp:
    y = xb.conditional(
        x[0, 0, 0] > 0.0,
        x[0],
        lambda x: xb.tanh(x @ w) * 2.0,
        x[1],
        lambda x: xb.sin(x @ w @ w),
    )
    return lib.sum(y * y)


def conditional_of_jax(x: Any, w: Any) -> Any:
    y = lax.cond(x[0, 0, 0] > 0, lambda: jnp.tanh(x[0] @ w) * 2, lambda: jnp.sin(x[1] @ w @ w))
    return (y * y).sum()


def checkpointed(x: Any, w: Any) -> Any:
    function = jax.checkpoint(lambda y: jnp.tanh(y @ w))
    return (function(function(x[0])) ** 2).sum()


@jax.custom_vjp
def product(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def product_forward(x: Any, w: Any) -> Any:
    inner = x @ w  # needed backward, and not a result
    return jnp.tanh(inner), (x, w, inner)


def product_backward(saved: Any, dy: Any) -> Any:
    x, w, inner = saved
    slope = dy * (1 - jnp.tanh(inner) ** 2)
    return slope @ w.T, x.T @ slope


product.defvjp(product_forward, product_backward)


def custom_vjp(x: Any, w: Any) -> Any:
    return (product(product(x[0], w), w) ** 2).sum()


def applied(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w: lowering.apply(function, x, w)


CASES = {
    "scan": (scan, scan_of_jax),
    "while": (while_, while_of_jax),
    "call": (call, call_of_jax),
    "conditional": (conditional, conditional_of_jax),
    "applied scan": (applied(scan_of_jax), scan_of_jax),
    "applied while": (applied(while_of_jax), while_of_jax),
    "applied call": (applied(call_of_jax), call_of_jax),
    "applied cond": (applied(conditional_of_jax), conditional_of_jax),
    "checkpoint": (applied(checkpointed), checkpointed),
    "custom_vjp": (applied(custom_vjp), custom_vjp),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    ours, theirs = CASES[name]
    b = xb.XlaBuilder("step")
    x, w = b.parameter(xb.f32[X.shape], "x"), b.parameter(xb.f32[W.shape], "w")
    loss = ours(x, w)
    c = b.build(xb.tuple(loss, *lowering.gradients(loss, [x, w])))
    jitted = jax.jit(jax.value_and_grad(theirs, (0, 1)))
    assert products(c) == jitted.lower(X, W).as_text().count("stablehlo.dot_general")
    value, *found = lowering.compile(c)(X, W)
    expected_value, expected = jitted(X, W)
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    for gradient, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient, reference, rtol=1e-5, atol=1e-5)


def test_handles_of_replaced_ops_stay_valid() -> None:
    """The loop has other results now, and ops recorded before and after use the same handle."""
    b = xb.XlaBuilder("handles")
    x, w = b.parameter(xb.f32[X.shape], "x"), b.parameter(xb.f32[W.shape], "w")
    zero = b.constant(0, xb.s32)
    state = xb.while_(
        lambda s: s[0] < 5, lambda s: (s[0] + 1, xb.tanh(x[s[0]] + s[1] @ w)), (zero, x[0] * 0.0)
    )
    shape, before = state.shape, state[1]
    loss = lib.sum(before * before)
    dw = lowering.gradients(loss, w)
    assert state.shape is shape
    assert [op.id for op in b.ops] == list(range(len(b.ops)))
    after = state[1]
    difference = lib.sum(xb.abs(after - before)) + xb.convert(state[0] - 5, xb.f32)
    result = lowering.compile(b.build(xb.tuple(difference, dw)))(X, W)
    assert result[0] == 0
    expected = jax.jit(jax.grad(while_of_jax, 1))(X, W)
    np.testing.assert_allclose(result[1], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_gradients_of_the_same_loop_twice() -> None:
    """By other arrays, and of the gradients themselves."""
    b = xb.XlaBuilder("twice")
    x, w = b.parameter(xb.f32[X.shape], "x"), b.parameter(xb.f32[W.shape], "w")
    loss = scan(x, w)
    dw = lowering.gradients(loss, w)
    dx = lowering.gradients(loss, x)
    ddw = lowering.gradients(lib.sum(dw * dw), w)
    found = lowering.compile(b.build(xb.tuple(dw, dx, ddw)))(X, W)
    slope = jax.grad(scan_of_jax, 1)

    @jax.jit
    def expected(x: Any, w: Any) -> Any:
        second = jax.grad(lambda w: jnp.sum(slope(x, w) ** 2))
        return slope(x, w), jax.grad(scan_of_jax)(x, w), second(w)

    for gradient, reference in zip(found, expected(X, W), strict=True):
        np.testing.assert_allclose(gradient, reference, rtol=1e-4, atol=1e-4)


@jax.custom_vjp
def doubled_slope(x: Any, w: Any) -> Any:
    return jnp.sin(x @ w)


doubled_slope.defvjp(
    lambda x, w: (jnp.sin(x @ w), (x, w, x @ w)),
    lambda saved, dy: (
        2 * (dy * jnp.cos(saved[2])) @ saved[1].T,
        2 * saved[0].T @ (dy * jnp.cos(saved[2])),
    ),
)


def test_a_rule_is_kept_when_its_function_is_replaced() -> None:
    """Its derivative is not that of its ops, by the second call of gradients as by the first."""
    b = xb.XlaBuilder("rule")
    x, w = b.parameter(xb.f32[X.shape[1:]], "x"), b.parameter(xb.f32[W.shape], "w")
    loss = lib.sum(lowering.apply(doubled_slope, x, w))
    found = [lowering.gradients(loss, each) for each in (x, w, x)]
    results = lowering.compile(b.build(xb.tuple(*found)))(X[0], W)
    expected = jax.grad(lambda x, w: jnp.sum(doubled_slope(x, w)), (0, 1))(X[0], W)
    for result, reference in zip(results, (*expected, expected[0]), strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-6)


def test_a_loop_is_replaced_once() -> None:
    """The residuals of a loop with residuals would grow with each call of gradients."""
    b = xb.XlaBuilder("growth")
    x = b.parameter(xb.f32[3], "x")
    y = xb.scan([xb.broadcast(x, [4])], [x], lambda e, c: (xb.sin(c) * e, c + e), 0)[1]
    for factor in (1.0, 2.0, 3.0, 4.0):
        lowering.gradients(lib.sum(y * factor), x)
    sizes = [len(op.shape.elements) for op in b.ops if op.opcode == "scan"]
    assert max(sizes) <= min(sizes) + 2, sizes


def test_a_replaced_loop_keeps_its_metadata() -> None:
    """Not that of the block in which gradients is called."""
    b = xb.XlaBuilder("metadata")
    x = b.parameter(xb.f32[3], "x")
    with b.frontend_attributes({"pass": "forward"}):
        inputs = [xb.broadcast(x, [4])]
        y = xb.scan(inputs, [x], lambda e, c: (c * e, xb.sin(c) + e), 0)[1]
    with b.frontend_attributes({"pass": "backward"}):
        lowering.gradients(lib.sum(y * y), x)
    found = [op.frontend_attributes for op in b.ops if op.opcode == "scan"]
    assert found == [{"pass": "forward"}, {"pass": "backward"}]


def test_pullbacks_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[Any] = []
    trace = pullbacks._trace

    def counted(name: str, units: Any) -> Any:
        traced.extend(unit.op.opcode for unit in units)
        return trace(name, units)

    monkeypatch.setattr(pullbacks, "_trace", counted)
    monkeypatch.setattr(pullbacks, "_pullbacks", {})
    for layers in (2, 5):
        b = xb.XlaBuilder("layers")
        y, w = b.parameter(xb.f32[4, 8]), b.parameter(xb.f32[8, 8])
        for _ in range(layers):
            y = xb.tanh(y @ w)
        lowering.gradients(lib.sum(y), w)
    # The first product has no cotangent for its left operand; the others share two pullbacks.
    assert sorted(traced) == ["dot_general", "dot_general", "reduce", "tanh"]


def test_the_cache_of_pullbacks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pullbacks, "_pullbacks", {})
    monkeypatch.setattr(pullbacks, "_MOST_KEPT", 4)
    for size in range(1, 9):
        x = xb.XlaBuilder("sizes").parameter(xb.f32[size])
        lowering.gradients(lib.sum(xb.sin(x)), x)
    assert len(pullbacks._pullbacks) == 4


def gradient_of_scan(factor: Any) -> None:
    b = xb.XlaBuilder("scan")
    x = b.parameter(xb.f32[3])
    inputs = [xb.broadcast(x, [2])]
    y = xb.scan(inputs, [x], lambda e, c: (c * e * e.builder.constant(factor), c + e), 0)[1]
    lowering.gradients(lib.sum(y * y), x)


def test_pullbacks_of_equal_bodies_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pullbacks, "_pullbacks", {})
    counts = []
    for factor in (2, 2, 3):
        gradient_of_scan(np.full(3, factor, np.float32))
        counts.append(len(pullbacks._pullbacks))
    assert counts[0] == counts[1] == counts[2] - 1


def test_large_bodies_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pullbacks, "_pullbacks", {})
    monkeypatch.setattr(pullbacks, "_MOST_BYTES", 8)
    gradient_of_scan(np.full(3, 2, np.float32))
    assert "scan" not in {unit[0] for unit, _ in pullbacks._pullbacks}
