"""Derivatives of xb.custom_gradient in lowering.to_jax, gradients and grad."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import builder as xb
import lowering
from builder import lib

rng = np.random.default_rng(0)
X = rng.standard_normal(5).astype(np.float32)


@xb.computation
def tripled(x: xb.XlaOp) -> xb.XlaOp:
    """Its custom derivative is another one, so that tests see which one is used."""
    return x * 3.0


marked = xb.custom_gradient(tripled, lambda _x, _y, dy: dy * 7.0)


def total(f: Any, x: xb.XlaOp) -> xb.XlaComputation:
    root = lib.sum(f(x))
    return x.builder.build(root)


def parameter() -> xb.XlaOp:
    return xb.XlaBuilder("loss").parameter(xb.f32[5], "x")


def gradient(computation: xb.XlaComputation) -> Any:
    """The gradient by `to_jax`, which is also that of `lowering.grad` and `gradients`."""
    expected = jax.jit(jax.grad(lowering.to_jax(computation)))(X)
    by_grad = lowering.compile(lowering.grad(computation, "x"))(X)
    np.testing.assert_array_equal(by_grad, expected)
    x = parameter()
    recorded = lowering.gradients(xb.inline(computation, x), x)
    by_gradients = lowering.compile(x.builder.build(recorded))(X)
    np.testing.assert_array_equal(by_gradients, expected)
    return expected


@pytest.mark.parametrize(
    "apply",
    [
        lambda f, x: f(x),
        lambda f, x: xb.call(lambda v: f(v), x),
        lambda f, x: xb.composite_call(f, [x], "mine.marked"),
        lambda f, x: xb.conditional(xb.gt(x[0], -100.0), x, f, x, lambda v: v),
        lambda f, x: xb.scan(xb.reshape(x, [1, 5]), [], f, 0)[0],
    ],
)
def test_wherever_it_is_applied(apply: Any) -> None:
    computation, plain = (total(partial(apply, f), parameter()) for f in (marked, tripled))
    np.testing.assert_array_equal(gradient(computation), np.full(5, 7))
    np.testing.assert_array_equal(gradient(plain), np.full(5, 3))
    # The derivative is not part of the program.
    assert str(lowering.lower(computation)) == str(lowering.lower(plain))
    np.testing.assert_allclose(lowering.compile(computation)(X), 3 * X.sum(), rtol=1e-5)


def test_as_the_entry_and_in_a_loop() -> None:
    entry = marked.computation(xb.f32[5])
    _, pull = jax.vjp(lowering.to_jax(entry), X)
    np.testing.assert_array_equal(pull(X)[0], X * 7)
    loss = xb.custom_gradient(total(marked, parameter()), lambda x, _y, dy: x * dy)
    np.testing.assert_array_equal(jax.grad(lowering.to_jax(loss))(X), X)
    np.testing.assert_array_equal(lowering.compile(lowering.grad(loss, "x"))(X), X)

    x = parameter()
    i = x.builder.constant(0, xb.s32)
    looped = xb.while_(lambda s: s[0] < 2, lambda s: (s[0] + 1, marked(s[1])), (i, x))
    np.testing.assert_array_equal(gradient(x.builder.build(lib.sum(looped[1]))), np.full(5, 49))


def test_a_loop_without_known_trip_count() -> None:
    """The fixed point of v = cos(a * v): its derivative follows from the equation."""

    @xb.computation
    def fixed_point(a: xb.XlaOp) -> xb.XlaOp:
        def condition(state: Any) -> xb.XlaOp:
            v, before = state
            return xb.gt(xb.reduce_all(xb.abs(v - before), 0.0, xb.max), 1e-7)

        loop = xb.while_(condition, lambda s: (xb.cos(a * s[0]), s[0]), (a, a + 1.0))
        return loop[0]

    def backward(a: xb.XlaOp, v: xb.XlaOp, dv: xb.XlaOp) -> xb.XlaOp:
        sine = xb.sin(a * v)
        return -dv * sine * v / (1.0 + sine * a)

    a = np.array([0.1, 0.5, 0.8], np.float32)
    x = xb.XlaBuilder("loss").parameter(xb.f32[3], "x")
    alone = x.builder.build(lib.sum(fixed_point(x)))
    with pytest.raises(lowering.LoweringError, match="requires a trip count"):
        lowering.grad(alone, "x")
    x = xb.XlaBuilder("loss").parameter(xb.f32[3], "x")
    solved = x.builder.build(lib.sum(xb.custom_gradient(fixed_point, backward)(x)))

    def unrolled(a: Any) -> Any:
        v = a
        for _ in range(200):
            v = jnp.cos(a * v)
        return jnp.sum(v)

    found = lowering.compile(lowering.grad(solved, "x"))(a)
    np.testing.assert_allclose(found, jax.grad(unrolled)(a), rtol=1e-5)


def test_a_custom_call() -> None:
    """A custom call has no derivative of its own."""

    @xb.computation
    def called(x: xb.XlaOp) -> xb.XlaOp:
        return xb.custom_call("missing_target", [x], x.shape)

    custom = xb.custom_gradient(called, lambda x, _y, dy: dy * xb.cos(x))
    x = parameter()
    gradient = lowering.gradients(lib.sum(custom(x)), x)
    # It is not evaluated, as its result is not needed.
    step = lowering.compile(x.builder.build(gradient).extract(gradient))
    np.testing.assert_allclose(step(X), np.cos(X), rtol=1e-6)
    with pytest.raises(
        lowering.LoweringError,
        match=r"custom_call, recorded at .*no derivative(.|\n)*xb\.custom_gradient",
    ):
        lowering.gradients(lib.sum(called(y := parameter())), y)
    of_jax = lowering.grad(total(custom, parameter()), "x")
    assert "custom_call" not in Counter(op.opcode for op in of_jax.ops)


def test_a_python_call_runs_once() -> None:
    calls = []

    def host(x: Any) -> Any:
        calls.append(x)
        return np.sin(x)

    @xb.computation
    def sine(x: xb.XlaOp) -> xb.XlaOp:
        return xb.python_call(host, [x], x.shape)

    custom = xb.custom_gradient(sine, lambda x, _y, dy: dy * xb.cos(x))
    x = parameter()
    y = custom(x * 2.0)
    dx, dy = lowering.gradients(lib.sum(y * y), [x, y])
    step = lowering.compile(x.builder.build(xb.tuple(dx, dy)))
    found = step(X)
    np.testing.assert_allclose(found[0], 4 * np.sin(2 * X) * np.cos(2 * X), rtol=1e-5)
    np.testing.assert_allclose(found[1], 2 * np.sin(2 * X), rtol=1e-6)
    assert len(calls) == 1


def pair(x: np.ndarray) -> Any:
    return np.sin(x), np.cos(x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "shape"), [(np.sin, "f32[5]"), (pair, "(f32[5], f32[5])"), (lambda x: [x], "(f32[5])")]
)
def test_python_calls_in_recorded_gradients(host: Any, shape: str) -> None:
    """In a loop, too; the gradient calls the same function."""

    @xb.computation
    def called(x: xb.XlaOp) -> xb.XlaOp:
        return xb.python_call(host, [x], shape)

    def backward(x: xb.XlaOp, _y: Any, dy: Any) -> xb.XlaOp:
        return (dy[0] if dy.shape.is_tuple else dy) * xb.cos(x)

    custom = xb.custom_gradient(called, backward)

    def repeated(x: xb.XlaOp) -> xb.XlaOp:
        def body(state: Any) -> Any:
            y = custom(state[1])
            return state[0] + 1, y[0] if y.shape.is_tuple else y

        return xb.while_(lambda s: s[0] < 2, body, (x.builder.constant(0, xb.s32), x))[1]

    computation = total(repeated, parameter())
    found = gradient(computation)
    inner = host(X) if shape == "f32[5]" else host(X)[0]
    np.testing.assert_allclose(found, np.cos(X) * np.cos(inner), rtol=1e-6)
    recorded = lowering.grad(computation, "x")
    parts = (recorded, *recorded.called_computations())
    calls = [op for part in parts for op in part.ops if op.opcode == "python_call"]
    assert calls
    assert all(op.attributes["function"] is host and str(op.shape) == shape for op in calls)
    batch = np.stack([X, X + 1])
    rows = lowering.compile(lowering.vmap(computation, 2))(batch)
    single = lowering.compile(computation)
    np.testing.assert_allclose(rows, [single(row) for row in batch], rtol=1e-6)


def test_python_calls_without_a_derivative() -> None:
    calls = xb.computation(lambda x: xb.python_call(np.sin, [x], x.shape))
    function = lowering.to_jax(total(calls, parameter()))
    for op, differentiate in (
        ("grad", lambda: lowering.grad(total(calls, parameter()))),
        ("gradients", lambda: lowering.gradients(lib.sum(calls(y := parameter())), y)),
        ("to_jax", lambda: jax.grad(function)(X)),
    ):
        with pytest.raises(lowering.LoweringError) as caught:
            differentiate()
        message = str(caught.value)
        assert message.startswith(f"{op}: python_call, recorded at {__file__}:")
        assert "a derivative of its own: xb.custom_gradient" in message


def test_python_calls_of_nested_tuples() -> None:
    nested = xb.computation(lambda x: xb.python_call(lambda v: ((v,),), [x], "((f32[5]))"))
    custom = xb.custom_gradient(nested, lambda _x, _y, dy: dy[0][0])
    computation = total(lambda x: custom(x)[0][0], parameter())
    np.testing.assert_array_equal(lowering.compile(lowering.grad(computation))(X)[0], np.ones(5))
    np.testing.assert_array_equal(jax.grad(lowering.to_jax(computation))(X), np.ones(5))


def test_tokens() -> None:
    """A call with an effect: it is recorded once, in its order."""

    @xb.computation
    def printed(token: xb.XlaOp, x: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        return xb.after_all([token]), xb.exp(x)

    custom = xb.custom_gradient(printed, lambda _t, x, _y, dy: dy[0] * x)
    x = parameter()
    loss = lib.sum(custom(x.builder.create_token(), x)[1])
    dx = lowering.compile(x.builder.build(lowering.gradients(loss, x)))
    np.testing.assert_array_equal(dx(X), X)


def test_integers_and_tuples() -> None:
    """Parts without gradients are left out."""

    @xb.computation
    def mixed(pair: xb.XlaOp, n: xb.XlaOp, z: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        return n, pair[1] * xb.convert(pair[0] + n, xb.f32) + xb.real(z)

    def backward(
        pair: xb.XlaOp, n: xb.XlaOp, z: xb.XlaOp, result: xb.XlaOp, dresult: xb.XlaOp
    ) -> Any:
        assert str(dresult.shape) == "(f32[5])"
        assert result.shape == mixed_shape
        (dy,) = dresult
        return (dy * xb.convert(pair[0] + n, xb.f32),), xb.convert(dy, xb.c64) * z

    mixed_shape = xb.parse_shape("(s32[], f32[5])")
    custom = xb.custom_gradient(mixed, backward)
    b = xb.XlaBuilder("loss")
    x, n, z = b.parameter(xb.f32[5]), b.parameter(xb.s32[()]), b.parameter(xb.c64[5])
    loss = lib.sum(custom(xb.tuple(n, x), n, z)[1])
    dx, dz = lowering.gradients(loss, [x, z])
    c = b.build(xb.tuple(dx, dz))
    found = lowering.compile(c)(X, np.int32(3), X * 1j)
    np.testing.assert_array_equal(found[0], np.full(5, 6))
    np.testing.assert_array_equal(found[1], X * 1j)


def test_64_bit_derivatives_need_x64() -> None:
    """A derivative in f64 would be evaluated in f32."""

    def backward(_x: xb.XlaOp, _y: xb.XlaOp, dy: xb.XlaOp) -> xb.XlaOp:
        return xb.convert(xb.convert(dy, xb.f64) / 3.0, xb.f32)

    custom = xb.custom_gradient(tripled, backward)
    function = lowering.to_jax(total(custom, parameter()))
    with jax.enable_x64(False), pytest.raises(lowering.LoweringError, match="x64 mode is off"):
        function(X)
    found = lowering.compile(lowering.grad(total(custom, parameter()), "x"))(X)
    np.testing.assert_array_equal(found, np.full(5, 1 / 3, np.float32))


def test_calls_are_traced_once() -> None:
    """Equal calls share the computation of the derivative."""
    times = []

    def backward(_x: xb.XlaOp, _y: xb.XlaOp, dy: xb.XlaOp) -> xb.XlaOp:
        times.append(1)
        return dy * 2.0

    custom = xb.custom_gradient(tripled, backward)
    x = parameter()
    y = x
    for _ in range(10):
        y = custom(y)
    step = x.builder.build(lowering.gradients(lib.sum(y), x))
    assert len(times) == 1
    assert Counter(op.opcode for op in step.ops)["call"] == 20
    assert len(step.called_computations()) == 3  # the sum, and both directions
    np.testing.assert_array_equal(lowering.compile(step)(X), np.full(5, 2**10))
