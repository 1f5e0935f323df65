"""Derivatives of `to_jax` against finite differences in f64, and vmap against a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

import builder as xb
import lowering
from builder import lib
from builder.schema import SCHEMAS
from lowering.errors import LoweringError


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def of(function: Callable[..., xb.XlaOp], *sizes: tuple[int, ...]) -> xb.XlaComputation:
    """Record a function of f64 arrays."""
    b = xb.XlaBuilder("function")
    return b.build(function(*(b.parameter(xb.f64[s]) for s in sizes)))


def difference(
    function: Callable[..., Any], arguments: list[Any], directions: list[Any], step: float = 1e-6
) -> list[Any]:
    """Return the derivative along a direction by central differences."""
    ahead, behind = (
        jax.tree_util.tree_leaves(
            function(*(a + sign * step * d for a, d in zip(arguments, directions, strict=True)))
        )
        for sign in (1, -1)
    )
    return [
        (np.asarray(p) - np.asarray(q)) / (2 * step) for p, q in zip(ahead, behind, strict=True)
    ]


def check(computation: xb.XlaComputation, *, positive: bool = False, seed: int = 3) -> None:
    """Compare jvp, vjp and vmap with finite differences and with a loop."""
    random = np.random.default_rng(seed)
    shapes = [p.shape.dimensions for p in computation.parameters]
    low = 0.2 if positive else -0.9
    arguments = [random.uniform(low, 0.9, s) for s in shapes]
    directions = [random.standard_normal(s) for s in shapes]
    function = jax.jit(lowering.to_jax(computation))
    expected = difference(function, arguments, directions)
    forward = jax.jit(lambda a, d: jax.jvp(function, a, d))
    result, tangent = forward(tuple(arguments), tuple(directions))
    for one, other in zip(jax.tree_util.tree_leaves(tangent), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    weights = [random.standard_normal(e.shape) for e in expected]
    structure = jax.tree_util.tree_structure(result)
    backward = jax.jit(lambda a, w: jax.vjp(function, *a)[1](w))
    cotangents = backward(arguments, jax.tree_util.tree_unflatten(structure, weights))
    left = sum(np.vdot(w, e) for w, e in zip(weights, expected, strict=True))
    right = sum(np.vdot(c, d) for c, d in zip(cotangents, directions, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-7)
    rows = [np.stack([a, 0.5 * a]) for a in arguments]
    batched = jax.tree_util.tree_leaves(jax.vmap(function)(*rows))
    each = [jax.tree_util.tree_leaves(function(*(r[i] for r in rows))) for i in range(2)]
    for leaf, first, second in zip(batched, *each, strict=True):
        np.testing.assert_allclose(leaf, np.stack([first, second]), rtol=1e-12, atol=1e-14)


UNARY = [
    *("acos", "asin", "asinh", "atanh", "cbrt", "cos", "cosh", "erf", "exp", "expm1", "logistic"),
    *("neg", "sin", "sinh", "tan", "tanh"),
]
POSITIVE = [
    *("log", "log1p", "rsqrt", "sqrt", "abs", "sign", "floor", "ceil"),
    *("round", "round_nearest_even"),
]
BINARY = ["add", "atan2", "div", "max", "min", "mul", "pow", "rem", "sub"]


def _unary(x: xb.XlaOp) -> xb.XlaOp:
    return xb.tuple(*(getattr(xb, name)(x) for name in UNARY))


def _binary(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    return xb.tuple(
        *(getattr(xb, name)(x) for name in POSITIVE),
        *(getattr(xb, name)(x, y) for name in BINARY),
        xb.acosh(x + 1.5),
        xb.clamp(0.3, x, 0.7),
        xb.select(xb.and_(xb.gt(x, y), xb.not_(xb.eq(x, y))), x * 2.0, y),
        xb.optimization_barrier(xb.tuple(x, y))[1] * y,
        x * xb.convert_element_type(x.builder.iota(xb.s32[4], 0), xb.f64),
        xb.composite_call(lambda v, w: v * xb.sin(w), [x, y], "mine.scaled"),
    )


def _complex(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    product = xb.complex(x, y) * xb.exp(xb.complex(y, x))
    return xb.tuple(xb.real(product), xb.imag(product), xb.abs(product), xb.real(x) * y)


def _moved(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    start = x.builder.constant(np.int32(2))
    rows = x.builder.constant(np.array([[2], [0], [5]], np.int32))
    gathered = xb.gather(x, rows, xb.GatherDimensionNumbers([1], [0], [0], 1), [1, 3])
    numbers = xb.ScatterDimensionNumbers([1], [0], [0], 1)
    overhanging = xb.ScatterDimensionNumbers([0, 1], [], [0, 1], 0)
    position = x.builder.constant(np.array([3, -1], np.int32))
    return xb.tuple(
        xb.reshape(x, [2, 6]),
        xb.transpose(x, [1, 0]),
        xb.rev(x, [1]),
        xb.broadcast_in_dim(x, [2, 4, 3], [1, 2]),
        xb.dynamic_broadcast_in_dim(
            x, x.builder.constant(np.array([2, 4, 3], np.int32)), [1, 2], xb.f64[2, 4, 3]
        ),
        xb.concat_in_dim([x, x * y], 0),
        xb.pad(
            x,
            xb.reshape(xb.slice(y, [0, 0], [1, 1], [1, 1]), []),
            [(1, -1, 2), (0, 1, 0)],
        ),
        xb.slice(x, [1, 0], [4, 3], [2, 1]),
        xb.dynamic_slice(x, [start, start], [2, 1]),
        xb.dynamic_update_slice(x, xb.slice(y, [0, 0], [2, 2], [1, 1]), [start, start]),
        gathered,
        xb.scatter(x, rows, xb.slice(y, [0, 0], [3, 3], [1, 1]), xb.add, numbers),
        xb.scatter(x, position, xb.slice(y, [0, 0], [3, 2], [1, 1]), xb.add, overhanging),
        xb.convert_element_type(xb.convert_element_type(x, xb.f64), xb.f64),
    )


def _reduced(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    def window(reducer: Callable[..., xb.XlaOp], init: Any) -> xb.XlaOp:
        return xb.reduce_window(x, init, reducer, [2, 2], [1, 1], "VALID")

    first = xb.reshape(xb.slice(y, [0, 0], [1, 1], [1, 1]), [])
    return xb.tuple(
        xb.reduce(x, 0.0, xb.add, [0]),
        xb.reduce(x, first, xb.add, [1]),
        xb.reduce(x, 1.0, xb.mul, [0]),
        xb.reduce(x, -np.inf, xb.max, [0]),
        xb.reduce(x, 0.1, xb.min, [0, 1]),
        xb.reduce(x, 0.0, lambda a, b: a + b * 1.0, [0]),
        xb.reduce(x, first, lambda a, b: a * b + a + b, [1, 0]),
        xb.reduce(
            [x, y],
            [-np.inf, 0.0],
            lambda a, c, b, d: xb.tuple(xb.max(a, b), xb.select(a > b, c, d)),
            [0],
        ),
        lib.take_along_axis(x, lib.arg_max(x, xb.s32, 1)[:, None], 1),
        window(xb.add, 0.0),
        window(xb.add, first),
        window(xb.max, -np.inf),
        window(xb.max, first),
        window(xb.mul, 1.0),
        xb.reduce_window(x, first, xb.mul, [2, 2], [2, 1], [(1, 0), (0, 2)], base_dilations=[2, 1]),
        lib.cumprod(x, 1, reverse=True, exclusive=True),
        lib.cumlogsumexp(x, 1),
        xb.map([x, y], lambda a, b: a * xb.sin(b), [0, 1]),
        xb.sort(x, dimension=0),
        xb.top_k(x, 2)[0],
        xb.select_and_scatter(
            x, xb.ge, [2, 1], [2, 1], "VALID", xb.slice(y, [0, 0], [2, 3], [1, 1]), first, xb.add
        ),
    )


def _products(x: xb.XlaOp, y: xb.XlaOp, z: xb.XlaOp) -> xb.XlaOp:
    definite = xb.dot(x, xb.transpose(x, [1, 0])) + x.builder.constant(np.eye(3) * 2.0)
    image = xb.reshape(y, [1, 1, 3, 4])
    kernel = xb.reshape(z, [1, 1, 2, 2])
    return xb.tuple(
        xb.dot(x, y),
        xb.conv(image, kernel, [1, 2], "SAME"),
        xb.ragged_dot(
            x,
            xb.reshape(xb.concat_in_dim([y, y * y], 0), [2, 3, 4]),
            x.builder.constant(np.array([1, 2], np.int32)),
            xb.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0]),
        ),
        xb.conv_general_dilated(
            image,
            kernel,
            [1, 1],
            [(1, 0), (0, 1)],
            [1, 1],
            [1, 2],
            "bf01_oi01->bf01",
            window_reversal=[True, False],
        ),
        xb.cholesky(definite, lower=True),
        xb.triangular_solve(
            definite, y, left_side=True, lower=True, unit_diagonal=False, transpose_a="TRANSPOSE"
        ),
    )


def _normalized(x: xb.XlaOp, s: xb.XlaOp, o: xb.XlaOp, g: xb.XlaOp) -> xb.XlaOp:
    trained = xb.batch_norm_training(x, s, o, 0.01, 1)
    variance = xb.exp(o)
    return xb.tuple(
        trained,
        xb.batch_norm_inference(x, s, o, s, variance, 0.01, 1),
        xb.batch_norm_grad(x, s, o, variance, g, 0.01, 1),
    )


def _spectrum(x: xb.XlaOp) -> xb.XlaOp:
    transformed = xb.fft(x, "RFFT", [4])
    return xb.tuple(xb.abs(transformed), xb.fft(transformed * transformed, "IRFFT", [4]))


def _controlled(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    def body(state: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(state[0] + 1, xb.sin(state[1]) * 2.0)

    b = x.builder
    counted = xb.while_(lambda s: s[0] < 5, body, xb.tuple(b.constant(0, xb.s32), x))
    total = xb.reduce(x, 0.0, xb.add, [0])
    chosen = xb.conditional(total > 0.0, x, xb.sin, x, lambda v: v * v)
    index = xb.convert_element_type(total * 0.0, xb.s32) - 1  # out of range: the last branch
    switched = xb.conditional(index, [xb.sin, xb.cos, xb.exp], [x, y, x])
    scanned = xb.scan(x, total, lambda v, carry: (v * carry, v + carry), 0)
    called = xb.call(lambda v: xb.tanh(v) * y, x)
    return xb.tuple(counted[1], chosen, switched, scanned, called)


PROGRAMS: dict[str, tuple[Callable[..., xb.XlaOp], tuple[tuple[int, ...], ...]]] = {
    "unary": (_unary, ((4,),)),
    "binary": (_binary, ((4,), (4,))),
    "complex": (_complex, ((4,), (4,))),
    "moved elements": (_moved, ((4, 3), (4, 3))),
    "reductions": (_reduced, ((4, 3), (4, 3))),
    "products and factors": (_products, ((3, 3), (3, 4), (2, 2))),
    "batch norm": (_normalized, ((5, 2), (2,), (2,), (5, 2))),
    "fourier": (_spectrum, ((3, 4),)),
    "loops and branches": (_controlled, ((4,), (4,))),
}
"""All functions of a program are in one tuple: many small programs compile slowly."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    check(of(PROGRAMS[name][0], *PROGRAMS[name][1]), positive=name in ("binary", "complex"))


UNCHECKED = {
    **dict.fromkeys(
        (
            *("bitcast_convert", "count_leading_zeros", "is_finite", "mulhi"),
            *("popcnt", "shift_left", "shift_right_arithmetic", "shift_right_logical", "xor"),
            *("get_dimension_size", "replica_id", "partition_id"),
        ),
        "of integers, or with such a result",
    ),
    **dict.fromkeys(
        ("reduce_precision", "stochastic_convert"), "it rounds: its slope is 0 or infinite"
    ),
    **dict.fromkeys(("rng", "rng_bit_generator"), "of no operand"),
    **dict.fromkeys(("create_token", "after_all"), "of tokens"),
    **dict.fromkeys(("infeed", "outfeed", "send", "recv"), "refused"),
    **dict.fromkeys(("custom_call", "python_call"), "test_custom_gradients.py"),
    **dict.fromkeys(
        (
            *("all_gather", "all_reduce", "all_to_all", "all_to_all_tuple", "collective_broadcast"),
            *("collective_permute", "reduce_scatter"),
        ),
        "test_collectives.py",
    ),
    **dict.fromkeys(
        ("dynamic_gather", "dynamic_iota", "dynamic_pad", "real_dynamic_slice"),
        "test_open_sizes.py",
    ),
    **dict.fromkeys(("dynamic_reshape", "set_dimension_size"), "test_sizes_that_are_static"),
}
"""Why the derivative of an opcode is not compared here with finite differences."""


def test_every_opcode_is_differentiated() -> None:
    programs = [of(function, *sizes) for function, sizes in PROGRAMS.values()]
    parts = [part for each in programs for part in (each, *each.called_computations())]
    assert SCHEMAS.keys() - {op.opcode for part in parts for op in part.ops} == UNCHECKED.keys()


def test_sizes_that_are_static() -> None:
    b = xb.XlaBuilder("reshaped")
    x, n = b.parameter(xb.f64[6]), b.parameter(xb.s32[()])
    reshaped = xb.dynamic_reshape(x * x, [n, n], [2, 3], [False, False])
    function = lowering.to_jax(b.build(xb.remove_dynamic_dimension(reshaped, 1)))
    values = np.arange(6.0)
    gradient = jax.grad(lambda x: function(x, np.int32(2)).sum())(values)
    np.testing.assert_array_equal(gradient, 2 * values)


def test_unknown_trip_count() -> None:
    loop_line = 0

    @xb.computation(xb.f64[()])
    def halved(x: xb.XlaOp) -> xb.XlaOp:
        return xb.while_(lambda v: v > 1.0, lambda v: v * 0.5, x)

    (loop_line,) = [op.source.line for op in halved.ops if op.opcode == "while" and op.source]
    function = jax.jit(lowering.to_jax(halved))
    value, tangent = jax.jvp(function, (12.0,), (1.0,))
    assert (value, tangent) == (0.75, 0.0625)
    assert list(jax.vmap(function)(np.array([12.0, 0.5]))) == [0.75, 0.5]
    with pytest.raises(LoweringError) as caught:
        jax.grad(function)(12.0)
    assert str(caught.value).startswith(
        f"to_jax: while, recorded at {__file__}:{loop_line}: reverse-mode differentiation requires"
    )


def test_windows_with_other_reducers() -> None:
    """Differentiated only forward."""

    @xb.computation(xb.f64[4])
    def averages(x: xb.XlaOp) -> xb.XlaOp:
        return xb.reduce_window(x, 0.0, lambda a, b: (a + b) * 0.5, [2], [1], xb.Padding.VALID)

    function = jax.jit(lowering.to_jax(averages))
    values = np.array([1.0, 2.0, 4.0, 8.0])
    result, tangent = jax.jvp(function, (values,), (np.eye(4)[1],))
    np.testing.assert_array_equal(result, [1.25, 2.5, 5])
    np.testing.assert_array_equal(tangent, [0.5, 0.25, 0])
    with pytest.raises(
        LoweringError, match=r"^to_jax: reduce_window, recorded at .*: reverse-mode"
    ):
        jax.grad(lambda x: function(x).sum())(values)


def test_windows_of_all_elements_with_padding_on_both_sides() -> None:
    """They are not the windows of a cumulative product."""

    @xb.computation(xb.f64[3])
    def products(x: xb.XlaOp) -> xb.XlaOp:
        return xb.reduce_window(x, 1.0, lambda a, b: a * b, [3], [1], [(1, 1)])

    x, y, z = values = np.array([2.0, 3.0, 5.0])
    result, pull_back = jax.vjp(lowering.to_jax(products), values)
    np.testing.assert_array_equal(result, [x * y, x * y * z, y * z])
    (gradient,) = pull_back(np.ones(3))
    np.testing.assert_array_equal(gradient, [y + y * z, x + x * z + z, x * y + y])


def test_a_reduction_of_no_elements() -> None:
    @xb.computation(xb.f64[0, 2], xb.f64[()])
    def reduced(x: xb.XlaOp, init: xb.XlaOp) -> xb.XlaOp:
        return lib.sum(xb.reduce(x, init, lambda a, b: a * b + a, [0]))

    dx, dinit = jax.grad(lowering.to_jax(reduced), (0, 1))(np.zeros((0, 2)), 3.0)
    assert dx.shape == (0, 2)
    assert dinit == 2


def test_op_without_derivative() -> None:
    @xb.computation(xb.f64[3])
    def first(x: xb.XlaOp) -> xb.XlaOp:
        return xb.scatter(
            x,
            x.builder.constant(np.array([[0], [0]], np.int32)),
            xb.slice(x, [0], [2], [1]),
            lambda old, new: old * new + old,
            xb.ScatterDimensionNumbers([], [0], [0], 1),
        )

    function = lowering.to_jax(first)
    values = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(jax.jit(function)(values), [6, 2, 3])
    np.testing.assert_array_equal(jax.vmap(function)(np.stack([values] * 2))[1], [6, 2, 3])
    with pytest.raises(LoweringError, match=r"^to_jax: scatter, recorded at .*: jax has no deriv"):
        jax.grad(lambda x: function(x).sum())(values)


def test_shared_computations_are_traced_once() -> None:
    """20 computations; each calls the next one twice."""
    b = xb.XlaBuilder("level0")
    x = b.parameter(xb.f64[()])
    computation = b.build(xb.sin(x))
    for level in range(1, 21):
        b = xb.XlaBuilder(f"level{level}")
        x = b.parameter(xb.f64[()])
        computation = b.build(xb.call(computation, xb.call(computation, x)))
    text = jax.jit(lowering.to_jax(computation)).lower(0.5).as_text()
    assert text.count("stablehlo.sine") == 1
