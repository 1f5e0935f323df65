"""lowering.grad, value_and_grad and vmap: computations from a computation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import builder as xb
import lowering
from builder import lib

rng = np.random.default_rng(0)
W, X = (rng.standard_normal(n).astype(np.float32) for n in (3, 3))


@xb.computation(xb.f32[3], xb.f32[3])
def loss(w: xb.XlaOp, x: xb.XlaOp) -> xb.XlaOp:
    return lib.sum(xb.tanh(w * x))


def theirs(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(w * x))


def test_grad() -> None:
    dw, dx = jax.grad(theirs, (0, 1))(W, X)
    for wrt, expected in (
        (None, (dw, dx)),
        ("w", dw),
        ("x", dx),
        (["x"], (dx,)),
        (["x", "w"], (dx, dw)),
    ):
        gradient = lowering.grad(loss, wrt)  # type: ignore[arg-type]  # a union in a tuple
        assert gradient.program_shape.parameters == loss.program_shape.parameters
        assert gradient.program_shape.parameter_names == ("w", "x")
        result = lowering.compile(gradient)(W, X)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), result, expected)
    assert lowering.grad(loss, "w").name == "loss_grad"


def test_value_and_grad() -> None:
    both = lowering.value_and_grad(loss, "w")
    assert str(both.program_shape) == "(w: f32[3], x: f32[3]) -> (f32[], f32[3])"
    value, dw = lowering.compile(both)(W, X)
    np.testing.assert_allclose(value, theirs(W, X), rtol=1e-6)
    np.testing.assert_allclose(dw, jax.grad(theirs)(W, X), rtol=1e-6)


def test_nested_parameters() -> None:
    b = xb.XlaBuilder("nested")
    p = b.parameter(xb.tuple_shape([xb.f32[3], xb.tuple_shape([xb.f32[3]])]), "p")
    c = b.build(lib.sum(p[0] * p[1][0]))
    gradient = lowering.grad(c, "p")
    assert gradient.program_shape.result == c.program_shape.parameters[0]
    first, (second,) = lowering.compile(gradient)((W, (X,)))
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, W)


def test_computations_of_jax_functions() -> None:
    def model(params: Any, x: Any, *, scale: Any) -> Any:
        return jnp.sum(jnp.tanh(params["w"] * x + params["b"]) * scale)

    params: Any = {"w": W, "b": X}
    c = lowering.from_jax(model, params, X, scale=np.float32(2))
    expected = jax.grad(model)(params, X, scale=np.float32(2))
    by_argument = lowering.compile(lowering.grad(c, "params"))(params, X, scale=np.float32(2))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), by_argument, expected)
    by_leaf = lowering.compile(lowering.grad(c, "params['w']"))(params, X, scale=np.float32(2))
    np.testing.assert_allclose(by_leaf, expected["w"], rtol=1e-5)
    of_all = lowering.grad(c)
    value, gradients = lowering.compile(lowering.value_and_grad(c))(params, X, scale=np.float32(2))
    np.testing.assert_allclose(value, model(params, X, scale=2), rtol=1e-5)
    assert jax.tree.structure(gradients) == jax.tree.structure((params, X, 0))
    assert len(of_all.program_shape.result.elements) == 4  # type: ignore[union-attr]  # a tuple


def test_second_derivatives() -> None:
    """The result of grad is a computation like any other."""

    @xb.computation(xb.f32[()])
    def f(x: xb.XlaOp) -> xb.XlaOp:
        return xb.sin(x * x)

    second = lowering.compile(lowering.grad(lowering.grad(f, "x"), "x"))
    expected = jax.grad(jax.grad(lambda x: jnp.sin(x * x)))(0.7)
    np.testing.assert_allclose(second(np.float32(0.7)), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("in_axes", "out_axes"), [(0, 0), ((0, None), 0), ((-1, 0), 0), ((None, 1), -1)]
)
def test_vmap(in_axes: Any, out_axes: int) -> None:
    @xb.computation(xb.f32[3], xb.f32[3])
    def outer(x: xb.XlaOp, y: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        return xb.mul(xb.reshape(x, [3, 1]), xb.reshape(y, [1, 3])), xb.sin(y)

    axes = (in_axes,) * 2 if isinstance(in_axes, int) else in_axes
    x, y = (
        value
        if axis is None
        else np.moveaxis(np.stack([value, value + 1, value * 2, value]), 0, axis)
        for value, axis in zip((W, X), axes, strict=True)
    )
    mapped = lowering.vmap(outer, 4, in_axes, out_axes)
    result = lowering.compile(mapped)(x, y)
    expected = jax.vmap(lambda x, y: (jnp.outer(x, y), jnp.sin(y)), in_axes, out_axes)(x, y)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), result, expected)


def test_vmap_of_grad() -> None:
    per_example = lowering.vmap(lowering.grad(loss, "w"), 5, (None, 0))
    batch = rng.standard_normal((5, 3)).astype(np.float32)
    expected = jax.vmap(jax.grad(theirs), (None, 0))(W, batch)
    np.testing.assert_allclose(lowering.compile(per_example)(W, batch), expected, rtol=1e-5)


def test_deep_calls() -> None:
    """jax traces calls recursively."""
    computation = None
    for level in range(400):
        b = xb.XlaBuilder(f"level{level}")
        x = b.parameter(xb.f32[()])
        computation = b.build(xb.sin(x) if computation is None else xb.call(computation, x) * 2.0)
    assert computation is not None
    with pytest.raises(lowering.LoweringError, match="call each other this deep\nfix: record"):
        lowering.vmap(computation, 2)


def test_effects_are_refused() -> None:
    b = xb.XlaBuilder("calling")
    x = b.parameter(xb.f32[3], "x")
    xb.custom_call("any_target", x, xb.f32[3], has_side_effect=True)
    computation = b.build(lib.sum(x))
    for transform, message in (
        (lambda: lowering.vmap(computation, 2), "vmap: custom_call, recorded at .* would be lost"),
        (lambda: lowering.grad(computation), "grad: custom_call, recorded at .* would be lost"),
    ):
        with pytest.raises(lowering.LoweringError, match=message):
            transform()


def test_wrong_arguments() -> None:
    @xb.computation(xb.f32[3], xb.s32[3])
    def mixed(x: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        return lib.sum(x * xb.convert(n, xb.f32))

    @xb.computation(xb.f32[3])
    def vector(x: xb.XlaOp) -> xb.XlaOp:
        return x

    for call, kind, message in (
        (lambda: lowering.grad(lowering.jit(theirs)), xb.OperandError, "fix: pass function.comput"),  # type: ignore[arg-type]
        (lambda: lowering.grad(3), xb.OperandError, "grad: expected an XlaComputation"),  # type: ignore[arg-type]
        (lambda: lowering.grad(vector), xb.ShapeInferenceError, "must be a scalar"),
        (lambda: lowering.grad(mixed), xb.ShapeInferenceError, "parameter n must be of a float"),
        (lambda: lowering.grad(loss, "q"), xb.OperandError, "got 'q'\nfix: use 'w', 'x'"),
        (lambda: lowering.grad(loss, ["w", "w"]), xb.OperandError, "each once"),
        (lambda: lowering.grad(loss, []), xb.OperandError, "at least one"),
        (lambda: lowering.vmap(loss, 4, (0,)), xb.OperandError, "an axis for each of 2"),
        (
            lambda: lowering.vmap(loss, 4, None),
            xb.OperandError,
            "must have the new dim.*=None\nfix",
        ),
        (
            lambda: lowering.vmap(loss, 4, (None, None)),
            xb.OperandError,
            r"must have the new dimension, got in_axes=\(None, None\)\nfix: pass 0",
        ),
        (lambda: lowering.vmap(loss, -1), xb.ShapeInferenceError, "must be 0 or more, got -1"),
        (lambda: lowering.vmap(loss, 4, 3), xb.ShapeInferenceError, r"from -2 to 1, got 3"),
        (lambda: lowering.vmap(loss, 4, 0, 5), xb.ShapeInferenceError, r"axis for f32\[\] must be"),
    ):
        with pytest.raises(kind, match=message):
            call()
    assert lowering.compile(lowering.grad(mixed, "x"))(X, np.arange(3, dtype=np.int32))[2] == 2
