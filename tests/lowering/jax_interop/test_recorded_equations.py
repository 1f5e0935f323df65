"""Equations that are recorded as ops: the same ops as those of jax's lowering."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from tables import each_row

import builder as xb
import lowering
from lowering.jax_interop import recorded_equations
from lowering.jax_interop.equations import Equation
from lowering.jax_interop.pullbacks import op_keys
from lowering.jax_interop.recorded_equations import can_record, recorded
from lowering.jaxlib_api import jaxprs

X, Y = np.full((2, 3), 0.5, np.float32), np.full((2, 3), 2, np.float32)
HALF = X.astype(jnp.bfloat16)
IMAGES, KERNELS = np.ones((2, 8, 8, 4), np.float32), np.ones((3, 3, 2, 6), np.float32)
BITS = X > 0
HIGH = lax.Precision.HIGHEST


def convolution(images: Any, kernels: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    padding, precision = [(1, 2), (0, -1)], (lax.Precision.HIGH, HIGH)
    return lax.conv_general_dilated(
        images, kernels, (2, 1), padding, (1, 2), (2, 1), numbers, 2, precision=precision
    )


def transposed_convolution(images: Any, kernels: Any) -> Any:
    numbers = ("CHWN", "IHWO", "HWNC")
    return lax.conv_general_dilated(
        images, kernels, (1, 1), "SAME", dimension_numbers=numbers, batch_group_count=2
    )


def product(x: Any, y: Any) -> Any:
    kind = np.float32
    return lax.dot_general(x, y, (((1,), (1,)), ((0,), (0,))), preferred_element_type=kind)


def windows(x: Any) -> Any:
    zero = np.zeros((), x.dtype)
    return lax.reduce_window(x, zero, lax.add, (2, 2), (1, 2), ((1, 0), (0, 2)), (2, 1), (1, 2))


CASES: dict[str, list[tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "add": [(lax.add, (X, Y)), (lambda x: x + 2, (X,))],
    "add_any": [(jax.vjp(lambda x: (x, x), X)[1], ((X, Y),))],
    "and": [(lax.bitwise_and, (BITS, BITS))],
    "broadcast_in_dim": [(lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (1, 2)), (X,))],
    "concatenate": [(lambda *xs: lax.concatenate(xs, 1), (X, Y, X))],
    "conv_general_dilated": [
        (convolution, (IMAGES, KERNELS)),
        (convolution, (IMAGES.astype(jnp.bfloat16), KERNELS.astype(jnp.bfloat16))),
        (transposed_convolution, (np.ones((6, 5, 5, 4), np.float32),) * 2),
    ],
    "convert_element_type": [
        (lambda x: lax.convert_element_type(x, np.int32), (X,)),
        (lambda x: lax.convert_element_type(x, jnp.bfloat16), (X,)),
        (lambda x: lax.convert_element_type(x, np.float32), (BITS,)),
    ],
    "cos": [(lax.cos, (X,))],
    "div": [(lax.div, (X, Y)), (lambda x: 1 / x, (X,))],
    "dot_general": [
        (product, (X, Y)),
        (product, (HALF, HALF)),
        (lambda x, y: lax.dot(x, y.T, precision=HIGH), (X, Y)),
    ],
    "eq": [(lax.eq, (X, Y))],
    "exp": [(lax.exp, (X,))],
    "ge": [(lax.ge, (X, Y))],
    "gt": [(lax.gt, (X, Y)), (lax.gt, (BITS, BITS))],
    "integer_pow": [(lambda x: lax.integer_pow(x, 2), (X,))],
    "le": [(lax.le, (X, Y))],
    "log": [(lax.log, (X,))],
    "logistic": [],  # jax lowers it to several operations
    "lt": [(lax.lt, (X, Y))],
    "max": [(lax.max, (X, Y)), (lax.max, (BITS, BITS))],
    "min": [(lax.min, (X, Y))],
    "mul": [(lax.mul, (X, Y)), (lambda x: 2 * x, (HALF,))],
    "ne": [(lax.ne, (X, Y))],
    "neg": [(lax.neg, (X,))],
    "not": [(lax.bitwise_not, (BITS,))],
    "or": [(lax.bitwise_or, (BITS, BITS))],
    "iota": [(lambda x: x + lax.iota(np.float32, 3), (X,))],
    "pad": [(lambda x: lax.pad(x, x[0, 0] * 2, ((1, 0, 0), (-1, 2, 1))), (X,))],
    "reduce_sum": [
        (lambda x: lax.reduce_sum_p.bind(x, axes=(1,), out_sharding=None), (X,)),
        (lambda x: lax.reduce_sum_p.bind(x, axes=(0, 1), out_sharding=None), (HALF,)),
    ],
    "reduce_window_sum": [(windows, (X,)), (windows, (HALF,))],
    "reshape": [(lambda x: lax.reshape(x, (3, 2)), (X,))],
    "rev": [(lambda x: lax.rev(x, (1,)), (X,))],
    "rsqrt": [(lax.rsqrt, (X,))],
    "dim_as_value": [],  # see test_open_sizes.py
    "scan": [],  # see below
    "select_n": [(lax.select, (BITS, X, Y)), (lax.select, (np.bool_(True), X, Y))],
    "sin": [(lax.sin, (X,))],
    "slice": [
        (lambda x: lax.slice(x, (0, 1), (2, 3)), (X,)),
        (lambda x: lax.slice(x, (0, 0), (2, 3), (1, 2)), (X,)),
    ],
    "split": [(lambda x: lax.split(x, (1, 2), 1), (X,))],
    "sqrt": [(lax.sqrt, (X,))],
    "squeeze": [(lambda x: lax.squeeze(x, (1,)), (np.ones((2, 1, 3), np.float32),))],
    "sub": [(lax.sub, (X, Y))],
    "tanh": [(lax.tanh, (X,))],
    "transpose": [(lambda x: lax.transpose(x, (1, 0)), (X,))],
}
"""For each primitive of the table, functions with arguments."""


def test_every_rule_has_a_case() -> None:
    assert CASES.keys() == recorded_equations._RULES.keys()


def computation_of(jaxpr: Any) -> xb.XlaComputation:
    constants, arguments, equations, results = jaxprs.parts_of(jaxpr)
    assert can_record(equations)
    b, found = recorded(arguments, equations, results, constants)
    assert not any(op.source for op in b.ops)
    computation = b.build(found[0] if len(found) == 1 else xb.tuple(*found))
    computation._inlined_calls = b._inlined_calls
    return computation


def described(computation: xb.XlaComputation) -> Any:
    """Return nested tuples of the ops that the results are computed from, and the inlined calls."""
    keys = dict(zip(computation.ops, op_keys(computation.ops), strict=True))

    def tree(op: Any) -> Any:
        if op is None:
            return None
        if op.opcode == "broadcast_in_dim" and op.shape == op.operands[0].shape:
            return tree(op.operands[0])
        return keys[op], tuple(map(tree, op.operands))

    def calls() -> Iterator[Any]:
        for call in computation._inlined_calls:
            assert isinstance(call.function, Equation)
            function = call.function._replace(pullbacks={}, context=None)
            yield function, [*map(tree, call.operands)], [*map(tree, call.results)]

    return tree(computation.root), list(calls())


@each_row("name", [name for name, cases in CASES.items() if cases])
def test_the_ops_are_those_of_the_lowering(name: str) -> None:
    for function, arguments in CASES[name]:
        jaxpr = jax.make_jaxpr(function)(*arguments)
        assert name in {equation.primitive.name for equation in jaxpr.eqns}
        one, other = computation_of(jaxpr), lowering.from_jax(function, *arguments)
        assert described(one) == described(other)


def test_constants_and_arguments_may_be_results() -> None:
    constant = jnp.arange(3, dtype=np.float32)
    jaxpr = jax.make_jaxpr(lambda x, y: (y, constant * 2, 3.0, x + constant))(X, Y)
    found = lowering.compile(computation_of(jaxpr))(X, Y)
    expected = Y, [0, 2, 4], 3, X + constant
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_logistic() -> None:
    x = np.array([-200, -90, -3, -0.0, 1e-30, 0.5, 20, np.inf, np.nan], np.float32)
    computation = computation_of(jax.make_jaxpr(lax.logistic)(x))
    assert computation.root.opcode == "logistic"
    (call,) = computation._inlined_calls
    assert call.function.primitive is lax.logistic_p
    np.testing.assert_allclose(lowering.compile(computation)(x), lax.logistic(x), rtol=1e-6)


@pytest.mark.parametrize("is_reverse", [False, True])
def test_scans(is_reverse: bool) -> None:
    def scanned(w: Any, start: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            state = jnp.tanh(state * w) + x
            return state, (state * 2, lax.logistic(x))

        return lax.scan(step, start, xs, reverse=is_reverse)

    def counted(start: Any) -> Any:
        return lax.scan(lambda state, _: (state * 2, state), start, length=3, reverse=is_reverse)

    xs = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    for function, arguments in ((scanned, (X[0], Y[0], xs)), (counted, (X,))):
        found = computation_of(jax.make_jaxpr(function)(*arguments))
        assert "scan" in {op.opcode for op in found.ops}
        results = jax.tree.leaves(function(*arguments))
        for one, other in zip(lowering.compile(found)(*arguments), results, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
        (call,) = found._inlined_calls
        assert call.function.primitive is lax.scan_p
        assert call.members()


def annotated(x: Any) -> Any:
    with set_xla_metadata(kind="test"):
        return lax.neg(x)


@each_row(
    "function, arguments",
    [
        (lax.tan, (X,)),
        (lax.neg, (X.astype(np.complex64),)),
        (lambda x: lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST), (X,)),
        (lambda x: lax.integer_pow(x, 3), (X,)),
        (lambda x: lax.convert_element_type(x, np.bool_), (X,)),
        (lambda x: lax.select_n(np.int32(1), x, x), (X,)),
        (lambda x, y: product(x, y), (X, HALF)),
        (lambda x, y: lax.dot(x, y.T, precision=lax.DotAlgorithmPreset.F32_F32_F32), (X, Y)),
        (lambda x: lax.scan(lambda s, x: (s + x, s), 0.0, x, unroll=2), (X[0],)),
        (lambda x: lax.scan(lambda s, x: (jnp.tan(s), x), 0.0, x), (X[0],)),
        (lambda x: lax.scan(lambda s, x: (s + x, s), 0.0, x), (X[0, :0],)),
        (annotated, (X,)),
    ],
)
def test_other_equations_are_left_to_jax(function: Any, arguments: Any) -> None:
    assert not can_record(jax.make_jaxpr(function)(*arguments).eqns)
