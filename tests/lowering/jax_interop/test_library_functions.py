"""Functions of the library with derivatives of their own: what jax and `gradients` make of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from tables import each_row

import builder as xb
import lowering
import lowering.jax_interop.library_functions  # enters the functions
from builder import lib
from builder.lib.registry import DIFFERENTIABLE
from lowering.jax_interop.inlined_calls import LIBRARY_FUNCTIONS

ONES = np.ones(3, np.float32)
POINTS = np.array([0.5, 1, 2.5], np.float32)


def computation_of(function: Callable[..., xb.XlaOp], *arrays: Any) -> xb.XlaComputation:
    """Return the computation of the sum of a function's results."""
    b = xb.XlaBuilder("total")
    shapes = [xb.array_shape(np.asarray(array).dtype, np.shape(array)) for array in arrays]
    parameters = [b.parameter(shape, f"x{number}") for number, shape in enumerate(shapes)]
    return b.build(lib.sum(function(*parameters)))


def gradient(function: Callable[..., xb.XlaOp], array: Any) -> Any:
    """Return the gradient of the sum of a function's results."""
    run = compiled_gradient(function, array.dtype, array.shape)
    return np.asarray(jax.tree.leaves(run(array))[0])


@cache
def compiled_gradient(
    function: Callable[..., xb.XlaOp], dtype: Any, sizes: tuple[int, ...]
) -> lowering.Executable:
    computation = computation_of(function, np.zeros(sizes, dtype))
    return lowering.compile(lowering.grad(computation, "x0"), "cpu")


def test_every_function_with_a_derivative_has_one_entry_with_its_parameters() -> None:
    assert {*LIBRARY_FUNCTIONS} == {*DIFFERENTIABLE}
    for name, signature in DIFFERENTIABLE.items():
        mine, its = (
            [(p.name, p.default) for p in each.parameters.values()]
            for each in (signature, inspect.signature(LIBRARY_FUNCTIONS[name]))
        )
        assert mine == its, name


def test_activations_at_their_corners() -> None:
    x = np.array([-np.inf, -100, -30, 0, 30, 100, np.inf], np.float32)
    steps = [0, 0, 0, 1, 1, 1]
    assert gradient(lib.relu, x).tolist() == [0, 0, 0, 0, 1, 1, 1]
    for is_approximate in (True, False):
        found = gradient(lambda x, a=is_approximate: lib.gelu(x, a), x)
        assert np.delete(found, 3).tolist() == steps
        assert found[3] == 0.5


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32, np.float64])
def test_types(dtype: Any) -> None:
    """Narrow types are computed in f32, and the derivative is rounded once."""
    x = np.array([0.75, 3, 40]).astype(dtype)
    found = gradient(lib.lgamma, x)
    assert found.dtype == x.dtype
    expected = scipy.special.digamma(x.astype(float))
    np.testing.assert_allclose(found.astype(float), expected, rtol=4 * float(jnp.finfo(dtype).eps))


SECOND: list[tuple[str, Callable[..., xb.XlaOp], Callable[[Any], Any]]] = [
    ("lgamma", lib.lgamma, lambda x: scipy.special.polygamma(1, x)),
    ("digamma", lib.digamma, lambda x: scipy.special.polygamma(2, x)),
    ("erfc", lib.erfc, lambda x: 4 * x * np.exp(-x * x) / np.sqrt(np.pi)),
    (
        "igamma",
        lambda x: lib.igamma(lib.full_like(x, 2.0), x),
        lambda x: (1 - x) * np.exp(-x),
    ),
    (
        "beta",
        lambda x: lib.regularized_incomplete_beta(lib.full_like(x, 2.0), lib.full_like(x, 2.0), x),
        lambda x: 6 - 12 * x,
    ),
    ("zeta", lambda x: lib.zeta(lib.full_like(x, 2.0), x), lambda x: 6 * scipy.special.zeta(4, x)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "expected"), [case[1:] for case in SECOND], ids=[case[0] for case in SECOND]
)
def test_second_derivatives(function: Callable[..., Any], expected: Callable[..., Any]) -> None:
    x = np.array([0.25, 0.5, 0.875], np.float32)
    b = xb.XlaBuilder("second")
    parameter = b.parameter(xb.f32[3])
    first = lowering.gradients(lib.sum(function(parameter)), parameter)
    second = lowering.compile(b.build(lowering.gradients(lib.sum(first), parameter)), "cpu")
    np.testing.assert_allclose(second(x), expected(x.astype(float)), rtol=1e-5, atol=1e-5)
    by_jax = jax.grad(lowering.to_jax(computation_of(function, x)))
    again = jax.jit(jax.grad(lambda x: by_jax(x).sum()))(x)
    np.testing.assert_allclose(again, expected(x.astype(float)), rtol=1e-5, atol=1e-5)


def test_vmap() -> None:
    derivative = jax.grad(lowering.to_jax(computation_of(lib.bessel_i0e, np.float32(0))))
    expected = scipy.special.i1e(POINTS) - scipy.special.i0e(POINTS)
    np.testing.assert_allclose(jax.jit(jax.vmap(derivative))(POINTS), expected, rtol=1e-5)
    mapped = lowering.vmap(lowering.grad(computation_of(lib.bessel_i0e, np.float32(0))), 3)
    found = jax.tree.leaves(lowering.compile(mapped, "cpu")(POINTS))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_infinite_log_sums_have_the_derivative_of_the_maximum() -> None:
    for x, expected in (
        ([-np.inf, -np.inf], [0.5, 0.5]),
        ([np.inf, 0], [1, 0]),
        ([np.inf, np.inf], [0.5, 0.5]),
    ):
        array = np.array(x, np.float32)
        assert gradient(lib.logsumexp, array).tolist() == expected
        last = gradient(
            lambda x: lib.cumlogsumexp(x, 0) * x.builder.constant([0.0, 1.0], xb.f32), array
        )
        assert last.tolist() == expected


def cofactors(a: Any) -> Any:
    """Return the derivatives of a determinant: those of the minors, with signs."""
    places = np.ndindex(a.shape)
    minors = [np.delete(np.delete(a, i, 0), j, 1) for i, j in places]
    signs = (-1.0) ** np.add.outer(*map(np.arange, a.shape))
    return signs * np.reshape([np.linalg.det(minor) for minor in minors], a.shape)


@pytest.mark.slow
def test_classes_of_cross_entropy_without_probability() -> None:
    """A class of label 0 is left out of the sum, also where its logit is infinite."""
    b = xb.XlaBuilder("loss")
    x, y = b.parameter(xb.f32[1, 3], "x"), b.parameter(xb.f32[1, 3], "y")
    loss = lowering.to_jax(b.build(lib.cross_entropy(x, y)))
    logits, labels = np.float32([[1, -np.inf, 2]]), np.float32([[0.5, 0, 0.5]])
    slope = jax.grad(lambda labels: jnp.sum(loss(logits, labels)))(labels)
    expected = np.float32(np.logaddexp(1, 2)) - logits
    np.testing.assert_allclose(slope, np.where(labels == 0, 0, expected), rtol=1e-6)


def test_determinants_of_singular_matrices() -> None:
    random = np.random.default_rng(0)
    twice = np.eye(4)
    twice[1] = twice[0]
    pair = np.array([[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    matrices = [np.ones((3, 3)), np.zeros((2, 2)), np.ones((4, 4)), twice, twice.T, pair]
    matrices += [np.diag([1.0, 0, 2, 3]), random.normal(size=(4, 3)) @ random.normal(size=(3, 4))]
    for a in [*matrices, random.normal(size=(5, 5))]:
        np.testing.assert_allclose(gradient(lib.det, a), cofactors(a), atol=1e-12)


def test_limits_of_random_numbers() -> None:
    """Limits are neighbours of others, which has no derivative: the numbers inside have one."""

    def sample(lower: xb.XlaOp) -> xb.XlaOp:
        key = lib.random_key(lower.builder, 0)
        return lib.truncated_normal(key, lower, lib.full_like(lower, 2.0), xb.f32[3])

    lower = np.array([-1, 0, 1], np.float32)
    assert (gradient(sample, lower) > 0).all()


REFUSED: list[tuple[str, int, Callable[..., xb.XlaOp], int]] = [
    ("polygamma", 0, lib.polygamma, 2),
    ("igamma_grad_a", 0, lib.igamma_grad_a, 2),
    ("random_gamma_grad", 1, lib.random_gamma_grad, 2),
    ("regularized_incomplete_beta", 1, lib.regularized_incomplete_beta, 3),
    ("next_after", 0, lib.next_after, 2),
]


@pytest.mark.parametrize(
    ("name", "number", "function", "count"), REFUSED, ids=[case[0] for case in REFUSED]
)
def test_refused(name: str, number: int, function: Callable[..., Any], count: int) -> None:
    parameter = [*DIFFERENTIABLE[name].parameters][number]
    rule = f"it has no derivative with respect to {parameter}\nfix: "
    computation = computation_of(function, *[ONES] * count)
    function_of_jax = lowering.to_jax(computation)

    def tangent(*operands: Any) -> Any:
        return jax.jvp(function_of_jax, operands, operands)

    for caller, differentiate in (
        ("grad", lambda: lowering.grad(computation, f"x{number}")),
        ("to_jax", lambda: jax.eval_shape(jax.grad(function_of_jax, number), *[ONES] * count)),
        ("to_jax", lambda: jax.eval_shape(tangent, *[ONES] * count)),
    ):
        with pytest.raises(lowering.LoweringError) as caught:
            differentiate()
        message = str(caught.value)
        assert message.startswith(f"{caller}: {name}, recorded at {__file__}:"), message
        assert rule in message or caller == "to_jax", message


def test_refused_in_a_derivative() -> None:
    """The line is that of the function whose second derivative is needed."""
    function = lowering.to_jax(computation_of(lib.igamma, ONES, ONES))
    with pytest.raises(lowering.LoweringError) as caught:
        jax.eval_shape(jax.grad(lambda a: jax.grad(function)(a, ONES).sum()), ONES)
    message = str(caught.value)
    assert message.startswith(f"to_jax: igamma, recorded at {__file__}:")
    assert "igamma_grad_a has no derivative with respect to a\nfix: " in message
    by_x = jax.jit(jax.grad(lambda x: jax.grad(function)(ONES, x).sum()))
    assert np.isfinite(by_x(ONES)).all()


@pytest.mark.parametrize("approximate", [True, False])
def test_the_derivative_of_gelu_at_nan(approximate: bool) -> None:
    x = xb.XlaBuilder("nan").parameter(xb.f32[3], "x")
    dx = lowering.gradients(lib.sum(lib.gelu(x, approximate)), x)
    result = lowering.compile(x.builder.build(dx))(np.array([np.nan, -100, 100], np.float32))
    np.testing.assert_array_equal(result, [np.nan, 0, 1])


@cache
def slope_by_last(function: Callable[..., xb.XlaOp], count: int) -> lowering.Executable:
    """Return the derivative of a function of numbers with respect to the last one."""
    b = xb.XlaBuilder("slope")
    numbers = [b.parameter(xb.f32[()]) for _ in range(count)]
    return lowering.compile(b.build(lowering.gradients(function(*numbers), numbers[-1])), "cpu")


@each_row("shape, slope", [(0.5, np.inf), (1.0, 1.0), (2.0, 0.0)])
def test_the_slope_of_igamma_at_0(shape: float, slope: float) -> None:
    """The density of the gamma distribution at the end of its range."""
    run = slope_by_last(lib.igamma, 2)
    assert float(run(np.float32(shape), np.float32(0))) == slope


@each_row(
    "a, b, x, slope",
    [
        (2.0, 3.0, 0.0, 0.0),
        (1.0, 3.0, 0.0, 3.0),
        (0.5, 1.0, 0.0, np.inf),
        (3.0, 2.0, 1.0, 0.0),
        (4.0, 1.0, 1.0, 4.0),
        (1.0, 0.5, 1.0, np.inf),
    ],
)
def test_the_slope_of_the_incomplete_beta_function_at_its_ends(
    a: float, b: float, x: float, slope: float
) -> None:
    """The density of the beta distribution: its factors are x**(a - 1) and (1 - x)**(b - 1)."""
    run = slope_by_last(lib.regularized_incomplete_beta, 3)
    assert float(run(np.float32(a), np.float32(b), np.float32(x))) == slope


def test_labels_of_32_bits_need_no_x64_mode() -> None:
    b = xb.XlaBuilder("loss")
    logits, labels = b.parameter(xb.f32[2, 300], "logits"), b.parameter(xb.s32[2], "labels")
    function = lowering.to_jax(b.build(lib.sum(lib.cross_entropy(logits, labels))))
    values = np.linspace(-1, 1, 600, dtype=np.float32).reshape(2, 300)
    numbers = np.int32([299, 7])
    # A warning of jax about 64-bit types would be an error.
    expected = scipy.special.softmax(values, 1) - np.eye(300)[numbers]
    found = jax.jit(jax.grad(function))(values, numbers)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("element_type", [xb.s8, xb.u8, xb.u32, xb.s64], ids=str)
def test_labels_of_other_types(element_type: xb.PrimitiveType) -> None:
    b = xb.XlaBuilder("loss")
    logits, labels = b.parameter(xb.f32[2, 300], "logits"), b.parameter(element_type[2], "labels")
    run = lowering.compile(b.build(lib.cross_entropy(logits, labels)), "cpu")
    values = np.linspace(-1, 1, 600, dtype=np.float32).reshape(2, 300)
    numbers = np.array([127, 7], element_type.dtype)
    expected = -scipy.special.log_softmax(values, 1)[[0, 1], [127, 7]]
    np.testing.assert_allclose(run(values, numbers), expected, rtol=1e-5)


def test_64_bit_ops_of_library_functions_need_the_x64_mode() -> None:
    b = xb.XlaBuilder("loss")
    logits, labels = b.parameter(xb.f32[2, 3], "logits"), b.parameter(xb.s32[2], "labels")
    wide = lib.cross_entropy(logits, xb.convert(labels, xb.s64))
    function = lowering.to_jax(b.build(lib.sum(wide)))
    with pytest.raises(lowering.LoweringError, match="has 64-bit numbers"):
        function(np.ones((2, 3), np.float32), np.zeros(2, np.int32))
