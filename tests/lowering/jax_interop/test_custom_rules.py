"""Functions of jax with derivatives of their own, in computations."""

import gc
import weakref
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import builder as xb
import lowering
from builder import lib
from lowering.errors import LoweringError
from lowering.jax_interop import applying
from lowering.jaxlib_api.jaxprs import equations_of

VALUES = np.array([-1, 0, 1], np.float32)


@jax.custom_jvp
def sine(x: Any) -> Any:
    return jnp.sin(x)


@sine.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return sine(primals[0]), tangents[0] * 3


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def power(x: Any, exponent: int) -> Any:
    return x**exponent


power.defvjp(lambda x, n: (x**n, x), lambda n, x, dy: (dy * n * 10,))


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x) ** 2  # the sum of the softmax itself is constant


def in_loop(x: Any) -> Any:
    return jax.lax.scan(lambda y, _: (sine(y), None), x, None, length=2)[0]


def in_branch(x: Any) -> Any:
    return jax.lax.cond(x[2] > 0, lambda y: power(y, 2), lambda y: y, x)


@pytest.mark.parametrize(
    "function",
    [jax.nn.relu, softmax, sine, partial(power, exponent=3), in_loop, in_branch],
    ids=["relu", "softmax", "custom_jvp", "custom_vjp", "scan", "cond"],
)
def test_gradients_of_jax(function: Any) -> None:
    @jax.jit
    def both_of_jax(x: Any) -> Any:
        return function(2 * x), jax.grad(lambda x: function(2 * x).sum())(x)

    expected_value, expected = both_of_jax(VALUES)
    b = xb.XlaBuilder("step")
    x = b.parameter(xb.f32[3], "x")
    y = lowering.apply(function, 2 * x)
    c = b.build(xb.tuple(y, lowering.gradients(lib.sum(y), x)))
    value, gradient = lowering.compile(c)(VALUES)
    np.testing.assert_allclose(value, expected_value, rtol=1e-6)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)
    of_function = lowering.from_jax(lambda x: function(2 * x).sum(), xb.f32[3])
    np.testing.assert_allclose(
        lowering.compile(lowering.grad(of_function, "x"))(VALUES), expected, rtol=1e-6
    )


def test_forward_mode() -> None:
    c = lowering.from_jax(lambda x: sine(x) * x, xb.f32[3])
    tangent = np.ones(3, np.float32)
    value, derivative = jax.jvp(lowering.to_jax(c), (VALUES,), (tangent,))
    np.testing.assert_allclose(value, np.sin(VALUES) * VALUES, rtol=1e-6)
    np.testing.assert_allclose(derivative, 3 * VALUES + np.sin(VALUES), rtol=1e-6)
    batch = jax.vmap(lowering.to_jax(c))(np.stack([VALUES, -VALUES]))
    np.testing.assert_allclose(batch, [value, value], rtol=1e-6)


@jax.custom_jvp
def tripled(x: Any) -> Any:
    return jnp.sin(x) + 0.0


tripled.defjvp(lambda x, dx: (tripled(*x), 3 * tripled(*x) * dx[0]))


@pytest.mark.parametrize(
    "function",
    [tripled, lambda x: tripled(tripled(x)), lambda x: tripled(x) + tripled(x) * x],
    ids=["one", "nested", "two"],
)
def test_second_derivatives_of_a_rule_that_uses_its_function(function: Any) -> None:
    def total(x: Any) -> Any:
        return function(x).sum()

    x = xb.XlaBuilder("twice").parameter(xb.f32[3], "x")
    first = lowering.gradients(lowering.apply(total, x), x)
    second = lowering.gradients(lib.sum(first), x)
    expected = jax.grad(lambda x: jax.grad(total)(x).sum())(VALUES)
    result = lowering.compile(x.builder.build(second))(VALUES)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def cube_root(a: Any) -> Any:
    def solve(g: Any, x: Any) -> Any:
        def step(state: Any) -> Any:
            return state[0] + 1, state[1] - g(state[1]) / (3 * state[1] ** 2)

        return jax.lax.while_loop(lambda state: state[0] < 50, step, (0, x))[1]

    start = jnp.full_like(a, 2)
    return jax.lax.custom_root(
        lambda x: x**3 - a, start, solve, lambda g, y: y / g(jnp.ones_like(y))
    )


CUBES = np.array([1, 8, 27], np.float32)


def test_a_primitive_without_a_lowering() -> None:
    """Since jax 0.12 custom_root is expanded before its trace is lowered."""
    x = xb.XlaBuilder("root").parameter(xb.f32[3], "x")
    root, same = lowering.apply(lambda a: (cube_root(a), a), x)
    dx = lowering.gradients(lib.sum(root * same), x)
    result = lowering.compile(x.builder.build(dx))(CUBES)
    np.testing.assert_allclose(result, 4 / 3 * np.cbrt(CUBES), rtol=1e-5)


def test_a_primitive_without_a_lowering_in_a_jitted_function() -> None:
    """jax.jit omits an argument that is not used."""
    function = jax.jit(lambda unused, a: cube_root(a).sum())
    c = lowering.from_jax(function, xb.f32[2], xb.f32[3])
    assert c.program_shape.parameter_names == ("a",)
    result = jax.grad(lowering.to_jax(c))(CUBES)
    np.testing.assert_allclose(result, [1 / 3, 1 / 12, 1 / 27], rtol=1e-5)


@pytest.mark.slow
def test_random_numbers_in_a_function() -> None:
    """jax computes them with 64-bit counters, without its x64 mode."""

    def total(shape: Any) -> Any:
        return jax.random.gamma(jax.random.key(0), shape).sum()

    shape = np.array([0.5, 1.5, 3], np.float32)
    found = jax.jit(jax.grad(lowering.to_jax(lowering.from_jax(total, shape))))(shape)
    np.testing.assert_allclose(found, jax.grad(total)(shape), rtol=1e-6)


def test_an_equation_without_a_derivative_is_named() -> None:
    x = xb.XlaBuilder("unknown").parameter(xb.f32[3], "x")
    y = lowering.apply(lambda x: x.at[1].apply(jnp.sin), x) * 1.0
    with pytest.raises(LoweringError, match=r"differentiating scatter.*test_custom_rules\.py:\d+"):
        lowering.gradients(lib.sum(y), x)


@pytest.mark.slow
def test_in_shard_map() -> None:
    mesh = jax.make_mesh((3,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("d")
    function = lowering.to_jax(lowering.from_jax(lambda x: sine(x) * x, xb.f32[1]))
    sharded = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_allclose(jax.jit(sharded)(VALUES), np.sin(VALUES) * VALUES, rtol=1e-6)
    with pytest.raises(LoweringError, match="fix: pass check_vma=False to jax"):
        jax.grad(lambda x: sharded(x).sum())(VALUES)
    unchecked = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    gradient = jax.grad(lambda x: unchecked(x).sum())(VALUES)
    np.testing.assert_allclose(gradient, 3 * VALUES + np.sin(VALUES), rtol=1e-6)


def applied_functions(count: int) -> list[weakref.ref[Any]]:
    """Apply new functions whose derivatives refer to them, and one again and again."""
    x = xb.XlaBuilder().parameter(xb.f32[3], "x")
    lowering.apply(sine, x)
    traces = applying._traces[sine]
    alive = []
    for _ in range(count):

        @jax.custom_jvp
        def function(x: Any) -> Any:
            return x * 2

        function.defjvp(lambda x, dx, function=function: (function(*x), *dx))
        lowering.apply(function, x)
        alive.append(weakref.ref(function))
        lowering.apply(sine, x)
    assert applying._traces[sine] is traces
    assert len(traces) == 1
    return alive


@pytest.mark.slow
def test_functions_that_refer_to_themselves_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_MOST_FUNCTIONS", 3)
    alive = applied_functions(6)
    jax.clear_caches()
    for _ in range(2):  # the first frees objects of jax in C++ that refer to Python's
        gc.collect()
    assert sum(each() is not None for each in alive) == 2


def test_unused_arguments() -> None:
    """jax.jit drops arguments that are not used."""
    c = lowering.from_jax(jax.jit(lambda x, y, z: sine(z)), *[xb.f32[3]] * 3)
    assert c.program_shape.parameter_names == ("z",)
    derivative = jax.grad(lambda z: lowering.to_jax(c)(z).sum())(VALUES)
    np.testing.assert_array_equal(derivative, [3, 3, 3])


def test_a_function_that_is_called_often_is_searched_once() -> None:
    """It is called 2**40 times here. (jax itself can't lower as many levels.)"""

    def doubled(function: Any) -> Any:
        return jax.jit(lambda x: function(x) + function(x))

    function: Any = jnp.sin
    for _ in range(40):
        function = doubled(function)
    assert len(list(equations_of(jax.jit(function).trace(VALUES).jaxpr))) < 200


def test_several_results() -> None:
    x = xb.XlaBuilder("several").parameter(xb.f32[3], "x")
    found = lowering.apply(lambda x: {"twice": (sine(x), x), "none": None}, x)
    total = lib.sum(found["twice"][0] * found["twice"][1])
    c = x.builder.build(lowering.gradients(total, x))
    expected = 3 * VALUES + np.sin(VALUES)
    np.testing.assert_allclose(lowering.compile(c)(VALUES), expected, rtol=1e-6)


def test_the_ops_have_the_line_of_the_call() -> None:
    x = xb.XlaBuilder("calls").parameter(xb.f32[3], "x")
    call = lowering.apply(sine, x)
    assert call.opcode == "sine"
    assert call.source.file == __file__


def test_an_edited_computation_has_the_derivatives_of_its_ops() -> None:
    c = lowering.from_jax(lambda x: sine(x).sum(), xb.f32[3])
    edited = c.replace(lambda op, operands: xb.sin(*operands) if op.opcode == "sine" else None)
    assert len(c._inlined_calls) == 1
    assert not edited._inlined_calls
    gradient = jax.grad(lowering.to_jax(edited))(VALUES)
    np.testing.assert_allclose(gradient, np.cos(VALUES), rtol=1e-6)


def test_the_rules_are_dropped_with_their_computation() -> None:
    big = jnp.zeros(3)

    def function(x: Any) -> Any:
        return sine(x) + big

    c = lowering.from_jax(function, xb.f32[3])
    alive = weakref.ref(c._inlined_calls[0].function.params["call_jaxpr"])
    del c, function
    jax.clear_caches()
    gc.collect()
    assert alive() is None
