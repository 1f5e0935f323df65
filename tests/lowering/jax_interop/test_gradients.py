"""lowering.gradients: derivatives recorded as ops, compared with jax's own."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import builder as xb
import lowering
from builder import lib

rng = np.random.default_rng(0)


def total(x: xb.XlaOp) -> xb.XlaOp:
    return lib.sum(x)


def check(
    ours: Callable[..., xb.XlaOp], theirs: Callable[..., Any], *arrays: Any, rtol: float = 1e-5
) -> xb.XlaComputation:
    """Compare the gradients with respect to all arguments; return our computation."""
    b = xb.XlaBuilder("step")
    ops = [b.parameter(xb.array_shape(a.dtype, a.shape)) for a in arrays]
    found = lowering.gradients(ours(*ops), ops)
    computation = b.build(xb.tuple(*found))
    results = lowering.compile(computation)(*arrays)
    is_wide = arrays[0].dtype == np.float64
    with jax.enable_x64(is_wide):
        expected = jax.jit(jax.grad(theirs, tuple(range(len(arrays)))))(*arrays)
    for result, reference in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=rtol, atol=rtol)
    return computation


X = rng.standard_normal((8, 5)).astype(np.float32)
W1 = rng.standard_normal((5, 7)).astype(np.float32)
W2 = rng.standard_normal((7, 3)).astype(np.float32)


def test_a_network() -> None:
    def ours(w1: xb.XlaOp, w2: xb.XlaOp, x: xb.XlaOp) -> xb.XlaOp:
        y = lib.log_softmax(xb.dot(xb.tanh(xb.dot(x, w1)), w2))
        return -total(y * y)

    def theirs(w1: Any, w2: Any, x: Any) -> Any:
        y = jax.nn.log_softmax(jnp.tanh(x @ w1) @ w2)
        return -jnp.sum(y * y)

    computation = check(ours, theirs, W1, W2, X)
    # The forward pass is used, not recorded again: each value is computed once.
    counts = Counter(op.opcode for op in computation.ops)
    assert counts["tanh"] == 1
    assert counts["exponential"] <= 2
    assert counts["dot_general"] == 2 + 4
    exported = lowering.to_computation(lowering.lower(computation).bytecode)
    assert not exported.diff(computation)


def test_convolution_and_pooling() -> None:
    image = rng.standard_normal((2, 3, 8, 8)).astype(np.float32)
    kernel = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)

    def ours(x: xb.XlaOp, k: xb.XlaOp) -> xb.XlaOp:
        y = xb.max(xb.conv(x, k, [1, 1], xb.Padding.SAME), 0.0)
        y = xb.reduce_window(y, -np.inf, xb.max, [1, 1, 2, 2], [1, 1, 2, 2], xb.Padding.VALID)
        return total(y * y)

    def theirs(x: Any, k: Any) -> Any:
        y = jax.nn.relu(jax.lax.conv(x, k, (1, 1), "SAME"))
        window = (1, 1, 2, 2)
        y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, window, window, "VALID")
        return jnp.sum(y * y)

    check(ours, theirs, image, kernel, rtol=1e-4)


def test_indexing_and_sorting() -> None:
    rows = np.array([0, 3, 3, 1])

    def ours(x: xb.XlaOp) -> xb.XlaOp:
        taken = lib.take(x, x.builder.constant(rows.astype(np.int32)), 0)
        updated = xb.dynamic_update_slice(x, taken, [0, 0])
        return total(xb.sort(updated, dimension=1)[:, 0] * taken[0, 0]) + total(xb.rev(x, [1])[2])

    def theirs(x: Any) -> Any:
        taken = x[rows]
        updated = x.at[:4].set(taken)
        return jnp.sum(jnp.sort(updated, 1)[:, 0] * taken[0, 0]) + jnp.sum(x[2, ::-1])

    check(ours, theirs, X)


def test_the_derivative_of_split_is_one_concatenate() -> None:
    def ours(x: xb.XlaOp) -> xb.XlaOp:
        def step(row: xb.XlaOp, carry: xb.XlaOp) -> xb.XlaOp:
            first, _, last = lib.split(xb.sin(row + carry), [2, 4], axis=-1)
            return xb.pad_in_dim(first * last[:2], 0, 0, 0, 5)

        first, second, _ = lib.split(x * x, [1, 5])
        zeros = lib.zeros(x.builder, xb.f32[7])
        return total(xb.scan(second, zeros, step, 0)[0]) + total(first * first)

    def theirs(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            first, _, last = jnp.split(jnp.sin(row + carry), [2, 4])
            return jnp.pad(first * last[:2], (0, 5)), None

        first, second, _ = jnp.split(x * x, [1, 5])
        return jnp.sum(jax.lax.scan(step, jnp.zeros(7), second)[0]) + jnp.sum(first * first)

    array = rng.standard_normal((8, 7)).astype(np.float32)
    found = check(ours, theirs, array)
    counts = Counter(op.opcode for c in (found, *found.called_computations()) for op in c.ops)
    # The pads are those of the step, of its derivative, and of the derivative of `last[:2]`.
    assert (counts["concatenate"], counts["pad"]) == (2, 3)


def test_loops_branches_and_captured_values() -> None:
    """A loop with a known number of iterations, whose body has a branch and captures a value."""

    def ours(w: xb.XlaOp, v: xb.XlaOp) -> xb.XlaOp:
        def body(state: Any) -> Any:
            i, v = state
            v = xb.conditional(
                xb.gt(total(v), 0.0), v, lambda v: xb.sin(v * w), v, lambda v: v * v * w
            )
            return i + 1, v

        zero = w.builder.constant(0, xb.s32)
        return total(xb.while_(lambda state: state[0] < 5, body, (zero, v))[1])

    def theirs(w: Any, v: Any) -> Any:
        for _ in range(5):
            v = jnp.where(jnp.sum(v) > 0, jnp.sin(v * w), v * v * w)
        return jnp.sum(v)

    check(ours, theirs, X[0], X[1])


def test_64_bits_against_finite_differences() -> None:
    x = X[0].astype(np.float64)

    def ours(x: xb.XlaOp) -> xb.XlaOp:
        return total(xb.exp(xb.sin(x)) / (1.0 + x * x))

    b = xb.XlaBuilder("loss")
    p = b.parameter(xb.f64[5])
    loss = ours(p)
    value = lowering.compile(b.build(loss))
    b = xb.XlaBuilder("gradient")
    p = b.parameter(xb.f64[5])
    gradient = lowering.compile(b.build(lowering.gradients(ours(p), p)))(x)
    h = 1e-6
    for i, one in enumerate(np.eye(5)):
        high, low = (np.asarray(value(x + sign * h * one)) for sign in (1, -1))
        slope = (high - low) / (2 * h)
        np.testing.assert_allclose(gradient[i], slope, rtol=1e-8)
    assert not jax.config.jax_enable_x64


def test_complex_numbers() -> None:
    z = (X[0] + 1j * X[1]).astype(np.complex64)
    check(lambda z: total(xb.abs(z * z + z)), lambda z: jnp.sum(jnp.abs(z * z + z)), z)


def test_intermediate_results_and_unused_ops() -> None:
    b = xb.XlaBuilder("step")
    x, unused = b.parameter(xb.f32[5], "x"), b.parameter(xb.f32[2], "unused")
    h = xb.sin(x)
    loss = total(h * h * x)
    dh, again, nothing = lowering.gradients(loss, [h, h, unused])
    assert again is dh
    dx, dh2 = lowering.gradients(loss, [x, h])
    alone = lowering.gradients(loss, x)
    run = lowering.compile(b.build(xb.tuple(dh, nothing, dx, dh2, alone)))
    values = run(X[0], np.zeros(2, np.float32))
    np.testing.assert_allclose(values[0], 2 * np.sin(X[0]) * X[0], rtol=1e-5)
    np.testing.assert_array_equal(values[1], np.zeros(2))
    # With respect to x, h is not held fixed, even if it is in the list.
    np.testing.assert_allclose(values[2], values[4], rtol=1e-5)
    np.testing.assert_allclose(values[3], values[0], rtol=1e-5)


def test_trees_of_ops() -> None:
    @lowering.jit
    def step(params: Any, x: xb.XlaOp) -> Any:
        return lowering.gradients(total(params["w"] * x + params["b"][0]), params)

    found = step({"w": X[0], "b": (X[1],)}, X[2])
    np.testing.assert_array_equal(found["w"], X[2])
    np.testing.assert_array_equal(found["b"][0], np.ones(5))
    x = xb.XlaBuilder().parameter(xb.s32[2])
    with pytest.raises(
        xb.ShapeInferenceError, match=r"wrt\['n'\]\[0\] must be of a floating-point"
    ):
        lowering.gradients(total(xb.convert(x, xb.f32)), {"n": [x]})


def test_tuples_between() -> None:
    """A call with a tuple that does not depend on the target is an input of the derivative."""
    b = xb.XlaBuilder("step")
    x = b.parameter(xb.f32[5], "x")
    pair = b.parameter(xb.tuple_shape([xb.f32[5], xb.f32[5]]), "pair")

    def scaled(p: xb.XlaOp, v: xb.XlaOp) -> xb.XlaOp:
        return v * p[0] + p[1]

    dx = lowering.gradients(total(xb.call(scaled, pair, x)), x)
    run = lowering.compile(b.build(dx))
    np.testing.assert_array_equal(run(X[0], (X[1], X[2])), X[1])


def test_in_the_body_of_a_loop() -> None:
    """Gradient descent as a loop: the gradient is recorded in its body."""
    b = xb.XlaBuilder("descent")
    w, goal = b.parameter(xb.f32[5], "w"), b.parameter(xb.f32[5], "goal")

    def body(state: Any) -> Any:
        i, w = state
        error = w - goal
        return i + 1, w - 0.1 * lowering.gradients(total(error * error), w)

    zero = b.constant(0, xb.s32)
    root = xb.while_(lambda state: state[0] < 20, body, (zero, w))[1]
    result = lowering.compile(b.build(root))(X[0], X[1])
    expected = X[1] + (X[0] - X[1]) * 0.8**20
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_names_and_lines() -> None:
    b = xb.XlaBuilder("step")
    x = b.parameter(xb.f32[5], "x")
    loss = total(xb.tanh(x))
    count = len(b.ops)
    _, line = lowering.gradients(loss, x), sys._getframe().f_lineno
    new = b.ops[count:]
    assert new
    for op in new:
        assert op.source is not None
        assert op.source.line == line


def test_wrong_arguments() -> None:
    b = xb.XlaBuilder("wrong")
    x, n = b.parameter(xb.f32[5], "x"), b.parameter(xb.s32[()], "n")
    loss = total(x * x)
    random = total(x * xb.rng_uniform(b.constant(0.0, xb.f32), x[0], xb.f32[5]))
    repeated = xb.while_(
        lambda state: state[0] < n, lambda state: (state[0] + 1, state[1] * 2.0), (n, x)
    )
    averages = xb.reduce_window(x, 0.0, lambda a, b: a + b * 0.5, [2], [1], xb.Padding.VALID)
    other = xb.XlaBuilder("other").parameter(xb.f32[()])
    inner: dict[str, Any] = {}

    def body(v: xb.XlaOp) -> xb.XlaOp:
        with pytest.raises(xb.BuilderError, match="loss must be an op of"):
            lowering.gradients(loss, v)
        inner["ran"] = True
        return v

    xb.call(body, x)
    assert inner
    count = len(b.ops)
    for arguments, kind, message in (
        ((x, x), xb.ShapeInferenceError, r"loss must be a scalar .*got f32\[5\]\nfix: reduce"),
        ((xb.reduce(n, 0, xb.add, []), x), xb.ShapeInferenceError, "loss must be of a floating"),
        ((loss, n), xb.ShapeInferenceError, r"wrt must be of a floating-point"),
        ((loss, []), xb.OperandError, "wrt must be an op or a tree of ops"),
        ((loss, [3]), xb.OperandError, r"wrt\[0\] must be an XlaOp, got 3\nfix: pass the op"),
        (
            (loss, np.ones(2)),
            xb.OperandError,
            r"wrt must be an XlaOp, .*\nfix: pass the op",
        ),
        ((3, x), xb.OperandError, "loss must be an XlaOp, got 3"),
        (([x], loss), xb.OperandError, r"\nfix: write lowering.gradients\(loss, wrt\)"),
        ((np.sum, x), xb.OperandError, r"\nfix: write lowering.grad\(xb.computation"),
        ((loss, repeated), xb.OperandError, r"wrt must be an array, got \(s32"),
        ((loss, other), xb.BuilderError, "gradients: "),
        ((random, x), lowering.LoweringError, r"rng, recorded at .*: it has state"),
        ((total(repeated[1]), x), lowering.LoweringError, "requires a trip count"),
        ((total(xb.all_reduce(x, xb.add)), x), lowering.LoweringError, "^gradients: all_reduce, "),
        ((total(averages), x), lowering.LoweringError, "gradients: reduce_window, recorded at "),
    ):
        with pytest.raises(kind, match=message):
            lowering.gradients(*arguments)
    assert {op.opcode for op in b.ops[count:]} <= {
        "reduce",
        "constant",
        "get_tuple_element",
        "all_reduce",
    }


def test_values_between_targets_are_not_recorded_again() -> None:
    """The gradient with respect to a result between other targets and the loss."""
    b = xb.XlaBuilder("step")
    w1, w2, x = (b.parameter(xb.array_shape(a.dtype, a.shape)) for a in (W1, W2, X))
    h = xb.tanh(xb.dot(x, w1))
    y = lib.log_softmax(xb.dot(h, w2))
    g = xb.exp(y) * y
    before = Counter(op.opcode for op in b.ops)
    found = lowering.gradients(total(g * g), [w1, h, w2, g])
    computation = b.build(xb.tuple(*found))
    counts = Counter(op.opcode for op in computation.ops)
    assert counts["tanh"] == before["tanh"] == 1
    assert counts["exponential"] == before["exponential"] == 2
    assert counts["log"] == before["log"] == 1
    assert counts["dot_general"] == before["dot_general"] + 3
    assert not counts["call"]

    def theirs(w1: Any, dh: Any, w2: Any, dg: Any) -> Any:
        y = jax.nn.log_softmax((jnp.tanh(X @ w1) + dh) @ w2)
        return jnp.sum((jnp.exp(y) * y + dg) ** 2)

    zeros = [np.zeros(shape.dimensions, np.float32) for shape in (h.shape, g.shape)]
    expected = jax.grad(theirs, (0, 1, 2, 3))(W1, zeros[0], W2, zeros[1])
    for result, reference in zip(lowering.compile(computation)(W1, W2, X), expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-4, atol=1e-5)


def test_elements_of_tuples() -> None:
    """Each `t[0]` records another op for the same element."""
    b = xb.XlaBuilder("pair")
    pair = b.parameter("(f32[3], f32[3])", "pair")
    loss = lib.sum(pair[0] * pair[1] * pair[1])
    found = lowering.gradients(loss, [pair[0], pair[1], pair[1]])
    x, y = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    results = lowering.compile(b.build(xb.tuple(*found)))((x, y))
    for result, expected in zip(results, (y * y, 2 * x * y, 2 * x * y), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_constant_operand_of_a_call() -> None:
    """The trip count of a loop may depend on constants, but a derivative by one is not zero."""

    @xb.computation
    def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return xb.sin(a) * xb.exp(b)

    for flipped in (False, True):
        b = xb.XlaBuilder("constants")
        x, two = b.parameter(xb.f32[()]), b.constant(2.0, xb.f32)
        value = function(two, x) if flipped else function(x, two)
        found = lowering.gradients(value * 1.0, [x, two])
        dx, dtwo = lowering.compile(b.build(xb.tuple(*found)))(1.0)
        first, second = (2.0, 1.0) if flipped else (1.0, 2.0)
        by = [np.cos(first) * np.exp(second), np.sin(first) * np.exp(second)]
        np.testing.assert_allclose([dx, dtwo], by[::-1] if flipped else by, rtol=1e-6)


def test_a_call_with_one_operand_twice() -> None:
    """Its derivative is cached apart from that of the call with two operands."""

    @jax.custom_jvp
    def product(a: Any, b: Any) -> Any:
        return a * a * b

    @product.defjvp
    def _(operands: Any, tangents: Any) -> Any:
        (a, b), (da, db) = operands, tangents
        return product(a, b), 2 * a * b * da + a * a * db

    x, y = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    for is_same in (True, False, True):
        b = xb.XlaBuilder("twice")
        p, q = b.parameter(xb.f32[3]), b.parameter(xb.f32[3])
        value = lib.sum(lowering.apply(product, p, p if is_same else q))
        found = lowering.compile(b.build(xb.tuple(*lowering.gradients(value, [p, q]))))(x, y)
        expected = (3 * x * x, 0 * y) if is_same else (2 * x * y, x * x)
        for result, by_hand in zip(found, expected, strict=True):
            np.testing.assert_array_equal(result, by_hand)


def test_what_depends_on_a_target_only_through_stop_gradient() -> None:
    """It needs no derivative: a loop without a known trip count has none."""
    x = xb.XlaBuilder("stopped").parameter(xb.f32[3], "x")
    loop = xb.while_(lambda s: s[0] < 100.0, lambda s: s * 2.0, lib.stop_gradient(x))
    gradient = lowering.gradients(lib.sum(x * loop), x)
    values = np.array([0.5, 1, 2], np.float32)
    result = lowering.compile(x.builder.build(gradient))(values)
    np.testing.assert_array_equal(result, values * 256)
