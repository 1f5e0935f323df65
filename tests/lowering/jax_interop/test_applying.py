"""lowering.apply: jax functions called on ops."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest

import builder as xb
import lowering

rng = np.random.default_rng(0)
X = rng.uniform(0.1, 0.9, (4, 8)).astype(np.float32)
Y = rng.uniform(0.1, 0.9, (4, 8)).astype(np.float32)
SQUARE = X[:, :4] @ X[:, :4].T + np.eye(4, dtype=np.float32)

ONE: dict[str, Callable[..., Any]] = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module, names in (
        (
            jnp,
            """sin arctanh cbrt expm1 sinc sort argsort cumsum cumprod median var std ptp diff
            nanmean ravel transpose rot90 flip trapezoid gradient corrcoef cov nan_to_num signbit
            isfinite exp2 triu argmax""",
        ),
        (
            jax.nn,
            """softmax log_softmax gelu silu elu selu celu softplus glu hard_swish standardize mish
            logsumexp relu6 squareplus""",
        ),
        (
            jsp.special,
            "erf erfc erfinv gammaln digamma i0e i1e ndtr ndtri entr expit logit log_ndtr spence",
        ),
        (jsp.stats.norm, "pdf logpdf cdf logcdf ppf sf"),
        (jnp.fft, "rfft fft ifft fftshift"),
    )
    for name in names.split()
}
TWO: dict[str, Callable[..., Any]] = {
    "hypot": jnp.hypot,
    "kron": lambda x, y: jnp.kron(x[:2, :2], y[:2, :2]),
    "einsum": lambda x, y: jnp.einsum("ij,kj->ik", x, y),
    "tensordot": lambda x, y: jnp.tensordot(x, y, axes=2),
    "convolve": lambda x, y: jnp.convolve(x[0], y[0]),
    "interp": lambda x, y: jnp.interp(x, jnp.linspace(0, 1, 5), y[0, :5]),
    "searchsorted": lambda x, y: jnp.searchsorted(jnp.sort(x[0]), y[0]),
    "betainc": lambda x, y: jsp.special.betainc(x, y, 0.5),
    "betaln": jsp.special.betaln,
    "gammainc": jsp.special.gammainc,
    "xlogy": jsp.special.xlogy,
    "zeta": lambda x, y: jsp.special.zeta(x + 1, y),
    "map_coordinates": lambda x, y: jsp.ndimage.map_coordinates(x, [y[:2] * 3, y[2:] * 7], order=1),
    "correlate": lambda x, y: jsp.signal.correlate(x, y[:2, :2], mode="same"),
    "scan": lambda x, y: jax.lax.scan(lambda c, row: (c * row, c), y[0], x),
    "cond": lambda x, y: jax.lax.cond(x[0, 0] > y[0, 0], jnp.sin, jnp.cos, x),
    "fori_loop": lambda x, y: jax.lax.fori_loop(0, 5, lambda i, v: v * y + i, x),
    "vmap": lambda x, y: jax.vmap(jnp.outer)(x, y),
    "grad": jax.grad(lambda x, y: jnp.sum(jnp.tanh(x) * y)),
    "hessian": lambda x, y: jax.hessian(lambda v: jnp.prod(v * y[0, :3]))(x[0, :3]),
    "at": lambda x, y: x.at[jnp.array([0, 2]), 1:3].add(y[:2, :2]),
    "random": lambda x, y: jax.random.normal(jax.random.key(3), x.shape) + y,
    "segment_sum": lambda x, y: jax.ops.segment_sum(x, jnp.array([0, 1, 1, 0]), 2),
    "dot_product_attention": lambda x, y: jax.nn.dot_product_attention(
        *[v.reshape(1, 4, 2, 4) for v in (x, y, x)], is_causal=True
    ),
    "top_k": lambda x, y: jax.lax.top_k(x + y, 3),
}
SOLVERS: dict[str, Callable[..., Any]] = {
    "cholesky": jnp.linalg.cholesky,
    "inv": jnp.linalg.inv,
    "det": jnp.linalg.det,
    "slogdet": jnp.linalg.slogdet,
    "eigh": lambda a: jnp.linalg.eigh(a)[0],
    "svd": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "cho_solve": lambda a: jsp.linalg.cho_solve(jsp.linalg.cho_factor(a), a[:, 0]),
    "expm": jsp.linalg.expm,
    "lu_factor": jsp.linalg.lu_factor,
    "matrix_power": lambda a: jnp.linalg.matrix_power(a, 3),
    "qr": jnp.linalg.qr,
    "norm": jnp.linalg.norm,
}


def test_functions_of_jax() -> None:
    """A hundred functions in one computation, and under one jax.jit."""
    functions = (
        [(name, f, (0,)) for name, f in ONE.items()]
        + [(name, f, (0, 1)) for name, f in TWO.items()]
        + [(name, f, (2,)) for name, f in SOLVERS.items()]
    )
    assert len(functions) >= 90
    arrays = (X, Y, SQUARE)
    b = xb.XlaBuilder("all")
    ops = [b.parameter(xb.array_shape(a.dtype, a.shape)) for a in arrays]
    recorded = {name: lowering.apply(f, *[ops[i] for i in places]) for name, f, places in functions}
    leaves, tree = jax.tree.flatten(recorded)
    assert all(isinstance(leaf, xb.XlaOp) for leaf in leaves)
    results = tree.unflatten(lowering.compile(b.build(xb.tuple(*leaves)))(*arrays))
    expected = jax.jit(
        lambda *arrays: {name: f(*[arrays[i] for i in places]) for name, f, places in functions}
    )(*arrays)
    for name, result in results.items():
        # Fusion differs, and with it the rounding.
        jax.tree.map(
            lambda ours, theirs, name=name: np.testing.assert_allclose(
                ours, theirs, rtol=2e-5, atol=2e-5, err_msg=name
            ),
            result,
            expected[name],
        )


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
            "apply: jax needs fixed sizes",
        ),
        (lambda: lowering.apply(calls, x), lowering.LoweringError, "apply: the function calls"),
        (lambda: lowering.apply(lambda v: v + x, x), xb.OperandError, "add"),
    ):
        with pytest.raises(kind, match=message):
            call()
    assert [op.opcode for op in b.ops[count:]] == ["tuple", "parameter"]
    with pytest.raises(ValueError, match="axis 5 is out of bounds"):  # jax's own error
        lowering.apply(jnp.sum, x, axis=5)
