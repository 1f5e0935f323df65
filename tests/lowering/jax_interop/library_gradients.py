"""Gradients of functions of jax and of libraries above it, compared with those of `jax.grad`.

    python tests/lowering/jax_interop/library_gradients.py [LIBRARY...] [--only NAME] [--list]

A library that is not installed is reported and left out. The tests run some of the derivatives
(test_library_gradients.py); flax, haiku, distrax, tfp (tfp-nightly) and jaxopt must be installed.
The exit status is 1 if a derivative differs.

Each function is differentiated in f64 in two ways: `lowering.gradients` of ops recorded by
`lowering.apply`, and `lowering.grad` of a computation of `lowering.from_jax`. The difference from
jax's gradient is at most 1e-10 of its largest element.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import builder as xb
import lowering
from builder import lib

TOLERANCE = 1e-10
"""The largest difference from jax's gradient, relative to the largest element of the latter."""

PATHS = ("apply", "from_jax")
ORDERS = ("first", "second", "vmap")


class Case(NamedTuple):
    """A pure function, its arguments, and the derivatives to compare.

    Attributes:
        function: a function of arrays.
        arguments: trees of f64 arrays.
        orders: "first": the gradient; "second": the gradient of its product with a constant;
            "vmap": gradients of a batch of arguments.
        tolerance: the largest difference, relative to the largest element of jax's gradient.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    orders: tuple[str, ...] = ("first",)
    tolerance: float = TOLERANCE


ALL = ORDERS
rng = np.random.default_rng(0)
V = np.array([0.3, 1.2, -0.7, 0.5, 2.1])
P = np.array([0.31, 1.27, 0.72, 0.55, 2.14])  # positive
U = np.array([0.11, 0.83, 0.42, 0.27, 0.64])  # in the unit interval
M = rng.normal(size=(4, 4))
S = M @ M.T / 4 + np.eye(4)  # symmetric, positive definite
W = rng.normal(size=(5, 3))
X = rng.normal(size=(4, 6))
B = np.array([1.0, -0.5, 0.25, 2.0])
IMAGE = rng.normal(size=(2, 6, 6, 3))


def symmetric(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the symmetric part of its first argument."""
    return lambda a, *rest: function((a + a.T) / 2, *rest)


# jax: linear algebra, numpy and special functions


def cases_of_linalg() -> dict[str, Case]:
    la, sl = jnp.linalg, jsp.linalg
    tall = rng.normal(size=(5, 3))
    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "cholesky": (la.cholesky, (S,)),
        "solve": (la.solve, (M, B)),
        "solve of symmetric": (lambda a, b: sl.solve(a, b, assume_a="pos"), (S, B)),
        "inv": (la.inv, (M,)),
        "det": (la.det, (M,)),
        "slogdet": (lambda a: la.slogdet(a)[1], (M,)),
        "eigh": (symmetric(lambda a: (la.eigh(a)[0], la.eigh(a)[1] ** 2)), (S,)),
        "eigvals": (lambda a: jnp.abs(la.eigvals(a)), (M,)),
        "svd": (lambda a: (lambda u, s, v: (u**2, s, v**2))(*la.svd(a, full_matrices=False)), (W,)),
        "svdvals": (lambda a: la.svd(a, compute_uv=False), (tall,)),
        "qr": (lambda a: tuple(la.qr(a)), (tall,)),
        "lstsq": (lambda a, b: la.lstsq(a, b)[0], (tall, V)),
        "pinv": (la.pinv, (tall,)),
        "nuclear norm": (lambda a: la.norm(a, "nuc"), (tall,)),
        "spectral norm": (lambda a: la.norm(a, 2), (tall,)),
        "matrix_power": (lambda a: la.matrix_power(a, 3), (M,)),
        "expm": (sl.expm, (M,)),
        "cho_solve": (lambda a, b: sl.cho_solve(sl.cho_factor(a), b), (S, B)),
        "lu_solve": (lambda a, b: sl.lu_solve(sl.lu_factor(a), b), (M, B)),
        "solve_triangular": (
            lambda a, b: sl.solve_triangular(jnp.tril(a) + 3 * jnp.eye(4), b, lower=True),
            (M, B),
        ),
        "triangular, transposed": (
            lambda a, b: sl.solve_triangular(jnp.tril(a) + 3 * jnp.eye(4), b, trans=1, lower=True),
            (M, B),
        ),
        "multi_dot": (lambda a, b: la.multi_dot([a, b, a]), (M, S)),
        "block_diag": (lambda a, b: la.det(sl.block_diag(a, b)), (M, S)),
        "toeplitz": (lambda c: la.slogdet(sl.toeplitz(c) + 5 * jnp.eye(5))[1], (V,)),
        "gaussian process": (
            lambda a, y: -0.5 * y @ sl.cho_solve((sl.cholesky(a, lower=True), True), y),
            (S, B),
        ),
        "cg": (lambda a, b: jsp.sparse.linalg.cg(lambda x: a @ x, b, tol=1e-14)[0], (S, B)),
        "gmres": (
            lambda a, b: jsp.sparse.linalg.gmres(lambda x: a @ x, b, tol=1e-14, atol=1e-14)[0],
            (S, B),
        ),
        "bicgstab": (
            lambda a, b: jsp.sparse.linalg.bicgstab(lambda x: a @ x, b, tol=1e-14)[0],
            (S, B),
        ),
    }
    twice = {"cholesky", "solve", "slogdet", "eigh", "svdvals", "lstsq", "cho_solve"}
    batched = {"cholesky", "solve", "inv", "eigh", "qr", "solve_triangular", "cg"}
    return {name: Case(*case, orders(name, twice, batched)) for name, case in functions.items()}


def orders(name: str, twice: Iterable[str], batched: Iterable[str]) -> tuple[str, ...]:
    found = [("second", twice), ("vmap", batched)]
    return ("first", *[order for order, names in found if name in names])


def cases_of_numpy() -> dict[str, Case]:
    sp, st = jsp.special, jsp.stats
    ones: dict[str, Callable[..., Any]] = {
        "sort": lambda x: jnp.sort(x) ** 2 * jnp.arange(5.0),
        "median": jnp.median,
        "quantile": lambda x: jnp.quantile(x, 0.3) ** 2,
        "percentile, midpoint": lambda x: jnp.percentile(x, 40, method="midpoint"),
        "nanmedian": lambda x: jnp.nanmedian(jnp.where(x > 2, jnp.nan, x)),
        "argsort and take": lambda x: jnp.take(x, jnp.argsort(-x))[:3],
        "sort of pairs": lambda x: lax.sort((x**2, x), num_keys=1)[1],
        "sort by two keys": lambda x: lax.sort((jnp.round(x), x, x**2), num_keys=2)[2],
        "top_k": lambda x: lax.top_k(x, 2)[0],
        "cumsum": jnp.cumsum,
        "cumprod": jnp.cumprod,
        "cumprod with 0": lambda x: jnp.cumprod(x + 0.7),
        "prod with 0": lambda x: jnp.prod(x + 0.7),
        "cummax": lax.cummax,
        "cumlogsumexp": lax.cumlogsumexp,
        "logsumexp": sp.logsumexp,
        "logaddexp": lambda x: jnp.logaddexp(x, x[0] * x),
        "interp": lambda x: jnp.interp(x, jnp.array([-1.0, 0.5, 1.0, 3.0]), x[:4]),
        "polyfit": lambda x: jnp.polyfit(jnp.arange(5.0), x, 2),
        "fft": lambda x: jnp.abs(jnp.fft.fft(x)) ** 2,
        "rfft and irfft": lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.arange(3.0), 5),
        "cov": lambda x: jnp.cov(jnp.stack([x, x**2])),
        "convolve": lambda x: jnp.convolve(x, x[:3]),
        "var": lambda x: jnp.var(x, ddof=1),
        "norm at 0": lambda x: jnp.linalg.norm(x - lax.stop_gradient(x) + 1e-3),
        "double where": lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0),
        "max of ties": lambda x: jnp.max(jnp.round(x)) * x + jnp.max(jnp.stack([x, x])),
        "clip": lambda x: jnp.clip(x, 0.0, 1.0) * x,
        "abs, sign, floor": lambda x: jnp.abs(x) + jnp.sign(x) * x + jnp.floor(x),
        "remainder": lambda x: jnp.mod(x, 0.4),
        "scatter add and max": lambda x: x.at[jnp.array([0, 0, 3])].add(x[:3]).at[4].max(3 * x[0]),
        "scatter mul": lambda x: x.at[jnp.array([1, 2])].mul(x[:2], unique_indices=True),
        "segment_max": lambda x: jax.ops.segment_max(x, jnp.array([0, 1, 1, 0, 1]), 2),
        "complex": lambda x: jnp.abs(jnp.exp(1j * x) + x),
        "sinc": jnp.sinc,
        "gammaln": lambda x: sp.gammaln(x + 1.5),
        "digamma": lambda x: sp.digamma(x + 1.5),
        "polygamma": lambda x: sp.polygamma(2, x + 1.5),
        "multigammaln": lambda x: sp.multigammaln(x + 3.5, 3),
        "erfinv": lambda x: sp.erfinv(x * 0.3),
        "ndtri": lambda x: sp.ndtri(sp.expit(x)),
        "log_ndtr": lambda x: sp.log_ndtr(4 * x),
        "i0e, i1e": lambda x: sp.i0e(x) * sp.i1e(x),
        "i0, i1": lambda x: sp.i0(x) * sp.i1(x),
        "expi": lambda x: sp.expi(x * x),
        "zeta": lambda x: sp.zeta(3.0, x * x + 0.5),
        "xlogy, xlog1py": lambda x: sp.xlogy(x, x * x) + sp.xlog1py(x, x * x),
        "entr, kl_div": lambda x: sp.entr(x * x) + sp.kl_div(x * x, x * x + x + 1),
        "hyp1f1": lambda x: sp.hyp1f1(1.5, 2.5, x),
        "betaln": lambda x: sp.betaln(x * x + 0.5, 1.5),
        "softmax": lambda x: jax.nn.softmax(3 * x),
        "log_softmax": jax.nn.log_softmax,
        "gelu, silu, relu, elu": lambda x: sum(
            f(x) for f in (jax.nn.gelu, jax.nn.silu, jax.nn.relu, jax.nn.elu)
        ),
        "relu at 0": lambda x: (
            jax.nn.relu(x - lax.stop_gradient(x)) + jax.nn.relu6(x - x + 6) + x**2
        ),
        "normalizations": lambda x: jax.nn.standardize(x) * jax.nn.logsumexp(x),
        "norm.logpdf, logcdf": lambda x: st.norm.logpdf(x, 0.5, x * x) + st.norm.logcdf(x),
        "t.logpdf": lambda x: st.t.logpdf(x, x * x + 1),
        "gamma.logpdf": lambda x: st.gamma.logpdf(x * x + 0.1, x * x + 1),
        "beta.logpdf": lambda x: st.beta.logpdf(sp.expit(x), x * x + 1, 2.0),
        "truncnorm.logpdf": lambda x: st.truncnorm.logpdf(x * 0.1, -1.0, 1.0),
        "vonmises.logpdf": lambda x: st.vonmises.logpdf(x, x * x),
        "dirichlet.logpdf": lambda x: st.dirichlet.logpdf(jax.nn.softmax(x), x * x + 1),
        "gaussian_kde": lambda x: st.gaussian_kde(x).logpdf(jnp.arange(3.0)),
        "detrend": lambda x: jsp.signal.detrend(x) ** 2,
        "fftconvolve": lambda x: jsp.signal.fftconvolve(x, x[:3]),
        "welch": lambda x: jsp.signal.welch(jnp.tile(x, 4), nperseg=8)[1],
    }
    found = {name: Case(function, (V,)) for name, function in ones.items()}
    for name in ("sort", "quantile", "cumprod", "logsumexp", "gammaln", "softmax", "log_ndtr"):
        found[name] = Case(ones[name], (V,), ALL)
    found |= {
        "betainc of x": Case(lambda x: sp.betainc(1.5, 2.5, x), (U,)),
        "gammainc": Case(sp.gammainc, (P, P[::-1].copy())),
        "gammaincc of x": Case(lambda x: sp.gammaincc(1.5, x), (P,)),
        "multivariate_normal": Case(
            lambda x, m, c: st.multivariate_normal.logpdf(x, m, c), (B, B * 0.5, S)
        ),
        "random.gamma": Case(lambda a: jax.random.gamma(jax.random.key(0), a), (P,)),
        "random.loggamma": Case(lambda a: jax.random.loggamma(jax.random.key(1), a), (P,)),
        "random.dirichlet": Case(lambda a: jax.random.dirichlet(jax.random.key(2), a), (P,)),
        "random.beta": Case(lambda a: jax.random.beta(jax.random.key(3), a, 2 * a), (P,)),
        "random.t": Case(lambda a: jax.random.t(jax.random.key(4), a), (P,)),
        "random.multivariate_normal": Case(
            lambda m, c: jax.random.multivariate_normal(jax.random.key(5), m, c), (B, S)
        ),
        "gumbel softmax": Case(
            lambda x: jax.nn.softmax((x + jax.random.gumbel(jax.random.key(6), (5,))) / 0.5), (V,)
        ),
        "max_pool": Case(
            lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
            (IMAGE,),
        ),
        "dilated, grouped convolution": Case(
            lambda x, k: lax.conv_general_dilated(
                x,
                k,
                (2, 1),
                "SAME",
                rhs_dilation=(2, 1),
                feature_group_count=3,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            ),
            (IMAGE, rng.normal(size=(3, 2, 1, 6))),
        ),
        "attention": Case(
            lambda x: jax.nn.dot_product_attention(
                *[x.reshape(1, 4, 2, 3) * n for n in (1.0, 2.0, 3.0)], is_causal=True
            ),
            (X,),
            tolerance=1e-5,  # its products are computed in f32
        ),
        "map_coordinates": Case(
            lambda x, y: jsp.ndimage.map_coordinates(x, [y[:2] * 3, y[2:] * 3], order=1),
            (X, rng.uniform(size=(4,))),
        ),
    }
    return found


# jax: control flow and derivatives of their own


@jax.custom_vjp
def seven_times(x: Any) -> Any:
    """Have a derivative that differs from that of the operations, to detect which is used."""
    return jnp.sin(x)


seven_times.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (7.0 * g * x,))


@jax.custom_jvp
def three_times(x: Any) -> Any:
    return jnp.cos(x)


three_times.defjvp(lambda primals, tangents: (jnp.cos(primals[0]), 3.0 * tangents[0] * primals[0]))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def scaled_gradient(factor: float, x: Any, y: Any) -> Any:
    return x * y


scaled_gradient.defvjp(
    lambda factor, x, y: (x * y, (x, y)),
    lambda factor, r, g: (factor * g * r[1], -factor * g * r[0]),
)


@jax.custom_vjp
def clipped_gradient(x: Any) -> Any:
    return x


clipped_gradient.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.6, 0.6),))


@jax.custom_vjp
def with_stopped(x: Any) -> Any:
    return x * x


with_stopped.defvjp(
    lambda x: (x * x, seven_times(x)), lambda r, g: (g * lax.stop_gradient(r) + three_times(g),)
)


@jax.custom_gradient
def by_decorator(x: Any) -> Any:
    return x**3, lambda g: 5.0 * g * x


def fixed_point(a: Any) -> Any:
    """Return the square root by Newton's method, with the derivative of its definition."""

    @jax.custom_vjp
    def root(a: Any) -> Any:
        def unfinished(state: Any) -> Any:
            return jnp.max(jnp.abs(state[0] - state[1])) > 1e-14

        def improve(state: Any) -> Any:
            return (state[0] + a / state[0]) / 2, state[0]

        return lax.while_loop(unfinished, improve, (a, a + 1.0))[0]

    root.defvjp(lambda a: (root(a),) * 2, lambda r, g: (g / (2 * r),))
    return root(a)


def linear_solve(a: Any, b: Any) -> Any:
    def solve(matvec: Any, b: Any) -> Any:
        return lax.fori_loop(0, 60, lambda _, x: x + 0.3 * (b - matvec(x)), jnp.zeros_like(b))

    return lax.custom_linear_solve(
        lambda x: a @ x / 4, b, solve, lambda vecmat, b: solve(vecmat, b)
    )


def custom_root(a: Any) -> Any:
    def solve(f: Any, x: Any) -> Any:
        return lax.fori_loop(0, 50, lambda _, x: x - f(x) / (3 * x**2), x)

    def tangent(g: Any, y: Any) -> Any:
        return y / g(jnp.ones_like(y))

    return lax.custom_root(lambda x: x**3 - a, jnp.ones_like(a) * 2, solve, tangent)


def in_contexts(name: str, function: Callable[..., Any]) -> dict[str, Case]:
    """Return cases of an elementwise function of a vector in each control structure."""

    def in_scan(x: Any) -> Any:
        return lax.scan(lambda c, y: (function(c) * y + c, function(y)), x[0], x)

    def in_cond(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda y: function(y) * y, lambda y: y * 2.0, x)

    def in_switch(x: Any) -> Any:
        branches = [lambda y: y, lambda y: function(y) * y, jnp.cos]
        return lax.switch(jnp.int32(x[1]), branches, x)

    def in_fori(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, y: 0.5 * function(y) + x * i, x)

    def in_checkpoint(x: Any) -> Any:
        return jax.checkpoint(lambda y: function(y) * jnp.sin(y))(x * 1.5)

    def in_checkpoint_in_scan(x: Any) -> Any:
        body = jax.checkpoint(lambda c, y: (jnp.tanh(function(c) * y), function(y)))
        return lax.scan(body, x[0], x)

    structures: dict[str, Callable[..., Any]] = {
        "alone": lambda x: function(x) * x,
        "jit": jax.jit(lambda x: jax.jit(function)(x * 2) * x),
        "scan": in_scan,
        "cond": in_cond,
        "switch": in_switch,
        "fori_loop": in_fori,
        "map": lambda x: lax.map(lambda y: function(y) * y, x),
        "vmap": lambda x: jax.vmap(lambda y, z: function(y) * z)(x, x),
        "checkpoint": in_checkpoint,
        "checkpoint in scan": in_checkpoint_in_scan,
    }
    return {f"{name}, {place}": Case(f, (V,)) for place, f in structures.items()}


def cases_of_control() -> dict[str, Case]:
    from jax.ad_checkpoint import checkpoint_name

    policies = jax.checkpoint_policies

    def network(x: Any) -> Any:
        for n in range(3):
            x = checkpoint_name(jnp.sin(x @ M), f"layer {n}")
        return jnp.tanh(x)

    ones: dict[str, Callable[..., Any]] = {
        "straight-through": lambda x: (x + lax.stop_gradient(jnp.round(x) - x)) * x,
        "detached target": lambda x: (x - lax.stop_gradient(jnp.roll(x, 1) * 0.9)) ** 2,
        "stopped twice": lambda x: lax.stop_gradient(x * lax.stop_gradient(x)) * x,
        "surrogate": lambda x: jnp.exp(x - lax.stop_gradient(x)) * lax.stop_gradient(x**2),
        "nondiff_argnums": lambda x: scaled_gradient(2.0, x, x**2),
        "clipped gradient": lambda x: clipped_gradient(clipped_gradient(x) ** 2 * 3.0),
        "rules in a rule": lambda x: with_stopped(x) * x,
        "custom_gradient": lambda x: by_decorator(x) * x,
        "while in custom_vjp": lambda x: fixed_point(x * x + 0.5),
        "custom_root": lambda x: custom_root(x * x + 0.5),
        "associative_scan": lambda x: lax.associative_scan(
            lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (x, x**2)
        ),
        "scan in scan": lambda x: lax.scan(
            lambda c, y: (lax.scan(lambda d, z: (d * z + y, d), c, x)[0], c), x[0], x
        ),
        "scan in reverse": lambda x: lax.scan(
            lambda c, y: (c * y + jnp.sin(c), c), x[0], x, reverse=True, unroll=2
        ),
        "scan with integers": lambda x: lax.scan(
            lambda c, i: ((c[0] * x[c[1]], (c[1] + 2) % 5), c[0]), (x[0], 1), None, length=4
        ),
        "cond in scan": lambda x: lax.scan(
            lambda c, y: (lax.cond(y > 0, lambda: c * y, lambda: c - y), c), x[0], x
        ),
        "while with a trip count": lambda x: lax.fori_loop(
            0, 4, lambda i, s: (s[1], s[0] * jnp.sin(s[1])), (x, x + 1)
        ),
        "dynamic_slice": lambda x: lax.dynamic_slice(x, (jnp.argmax(x) - 2,), (2,)) ** 2,
        "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, x[:2] ** 2, (jnp.argmin(x),)),
        "optimization_barrier": lambda x: lax.optimization_barrier(x * x) * x,
        "reduce_precision": lambda x: lax.reduce_precision(x * x, 8, 7) * x,
        "jacobian inside": lambda x: jax.jacfwd(lambda y: jnp.sin(y) * y[0])(x),
        "gradient inside": lambda x: jax.grad(lambda y: jnp.sum(seven_times(y) * y))(x),
        "hessian-vector product": lambda x: jax.jvp(
            jax.grad(lambda y: jnp.sum(jnp.sin(y) * y**2)), (x,), (x,)
        )[1],
        "linear_transpose": lambda x: jax.linear_transpose(lambda y: y * 3.0 + jnp.flip(y), x)(
            x**2
        )[0],
        "closure_convert": lambda x: jax.closure_convert(lambda y: y * x[0], x[1])[0](
            x[1], *jax.closure_convert(lambda y: y * x[0], x[1])[1]
        ),
        "ragged selection": lambda x: jnp.where(x > 0, seven_times(x), three_times(x)),
    }
    found = {name: Case(function, (V,)) for name, function in ones.items()}
    for name in ("associative_scan", "scan in scan", "custom_root", "straight-through"):
        found[name] = Case(ones[name], (V,), ALL)
    found["custom_linear_solve"] = Case(linear_solve, (S, B), ALL)
    for name, policy in {
        "checkpoint": None,
        "dots_saveable": policies.dots_saveable,
        "nothing_saveable": policies.nothing_saveable,
        "everything_saveable": policies.everything_saveable,
        "save_only_these_names": policies.save_only_these_names("layer 1"),
        "save_anything_except": policies.save_anything_except_these_names("layer 0"),
    }.items():
        found[name] = Case(jax.checkpoint(network, policy=policy), (X[:, :4].copy(),))
    found |= in_contexts("stop_gradient", lambda x: x * lax.stop_gradient(x))
    found |= in_contexts("custom_vjp", seven_times)
    found |= in_contexts("custom_jvp", three_times)
    return found


# Libraries


def cases_of_optax() -> dict[str, Case]:
    import optax

    logits = rng.normal(size=(3, 5))
    targets = np.eye(5)[[1, 3, 0]]
    labels = np.array([1, 3, 0])
    sequence = rng.normal(size=(2, 7, 4))
    tokens = np.array([[1, 2, 3], [2, 2, 0]])
    token_paddings = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    losses, projections = optax.losses, optax.projections

    def of_labels(name: str) -> Callable[..., Any]:
        return lambda x: getattr(losses, name)(x, labels)

    def of_targets(name: str) -> Callable[..., Any]:
        return lambda x: getattr(losses, name)(x, targets)

    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        name: (of_labels(name), (logits,))
        for name in (
            "softmax_cross_entropy_with_integer_labels",
            "multiclass_hinge_loss",
            "multiclass_sparsemax_loss",
            "multiclass_perceptron_loss",
        )
    }
    functions |= {
        name: (of_targets(name), (logits,))
        for name in (
            "softmax_cross_entropy",
            "safe_softmax_cross_entropy",
            "sigmoid_binary_cross_entropy",
            "sigmoid_focal_loss",
            "poly_loss_cross_entropy",
            "cosine_distance",
            "huber_loss",
            "log_cosh",
        )
    }

    def updated(optimizer: Any) -> Callable[..., Any]:
        """Return parameters after three steps, which depend on the initial ones."""

        def function(parameters: Any, target: Any) -> Any:
            def loss(p: Any) -> Any:
                return jnp.sum((jnp.tanh(p) - target) ** 2)

            state = optimizer.init(parameters)
            for _ in range(3):
                updates, state = optimizer.update(jax.grad(loss)(parameters), state, parameters)
                parameters = optax.apply_updates(parameters, updates)
            return parameters

        return function

    def perturbed(x: Any) -> Any:
        def one_hot(y: Any) -> Any:
            return jax.nn.one_hot(jnp.argmax(y), 5, dtype=y.dtype)

        make = optax.perturbations.make_perturbed_fun
        return make(one_hot, num_samples=20, sigma=0.5)(jax.random.key(0), x)

    def sinkhorn(cost: Any) -> Any:
        def step(f: Any, _: Any) -> Any:
            g = -jsp.special.logsumexp(f[:, None] - cost, axis=0)
            return -jsp.special.logsumexp(g[None] - cost, axis=1), None

        f, _ = lax.scan(step, jnp.zeros(3), None, length=10)
        return jnp.exp(f[:, None] - cost)

    functions |= {
        "ctc_loss": (
            lambda x: losses.ctc_loss(x, jnp.zeros((2, 7)), tokens, token_paddings),
            (sequence,),
        ),
        "ranking_softmax_loss": (lambda x: losses.ranking_softmax_loss(x, targets), (logits,)),
        "ntxent": (lambda x: losses.ntxent(x, jnp.array([0, 1, 0])), (logits,)),
        "triplet_margin_loss": (
            lambda x: losses.triplet_margin_loss(x, x[::-1] + 0.3, x * 0.5),
            (logits,),
        ),
        "kl_divergence": (
            lambda x: losses.kl_divergence(jax.nn.log_softmax(x), jax.nn.softmax(x[::-1])),
            (logits,),
        ),
        "fenchel_young": (
            lambda x: losses.make_fenchel_young_loss(jax.nn.logsumexp)(x, targets),
            (logits,),
        ),
        "smooth_labels": (
            lambda x: losses.softmax_cross_entropy(x, optax.smooth_labels(targets, 0.1)),
            (logits,),
        ),
        "perturbations": (perturbed, (V,)),
        "sinkhorn": (sinkhorn, (logits[:, :3].copy(),)),
        "projection_simplex": (lambda x: projections.projection_simplex(x), (V,)),
        "projection_l1_ball": (lambda x: projections.projection_l1_ball(x, 1.5), (V,)),
        "projection_l2_ball": (lambda x: projections.projection_l2_ball(x, 1.5), (V,)),
        "projection_box": (lambda x: projections.projection_box(x, -0.5, 1.0), (V,)),
        "adam": (updated(optax.adam(0.1)), (V, U)),
        "momentum": (updated(optax.sgd(0.1, momentum=0.9, nesterov=True)), (V, U)),
        "rmsprop": (updated(optax.rmsprop(0.1)), (V, U)),
        "lamb": (updated(optax.lamb(0.1)), (V, U)),
        "adafactor": (updated(optax.adafactor(0.1)), (V, U)),
        "clipped": (updated(optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(0.1))), (V, U)),
        "lion": (updated(optax.lion(0.1)), (V, U)),
        "safe_norm": (lambda x: optax.safe_norm(x, 1e-3), (V,)),
        "hvp": (
            lambda x: jax.jvp(jax.grad(lambda y: jnp.sum(jnp.tanh(y) ** 2)), (x,), (x,))[1],
            (V,),
        ),
    }
    twice = {"softmax_cross_entropy", "ctc_loss", "adam", "sigmoid_focal_loss"}
    batched = {"projection_simplex", "softmax_cross_entropy", "adam"}
    return {name: Case(*case, orders(name, twice, batched)) for name, case in functions.items()}


def cases_of_equinox() -> dict[str, Case]:
    import equinox as eqx

    nn, key = eqx.nn, jax.random.key(0)
    image = np.moveaxis(IMAGE[0], -1, 0).copy()
    row = X[0]

    def called(make: Callable[[], Any], call: Callable[..., Any], *arguments: Any) -> Case:
        """Return a call as a function of the layer's weights, too."""
        shapes, rest = eqx.partition(eqx.filter_eval_shape(make), is_abstract_float)
        rest = materialized(rest, make)
        return Case(
            lambda weights, *a: call(eqx.combine(weights, rest), *a),
            (weights_of(shapes), *arguments),
        )

    def materialized(rest: Any, make: Callable[[], Any]) -> Any:
        """Replace other shapes, such as those of integers, by the arrays."""
        leaves = jax.tree.leaves(rest)
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
            return eqx.partition(make(), eqx.is_inexact_array)[1]
        return rest

    def plain(layer: Any, *arguments: Any) -> Any:
        return layer(*arguments)

    def cells(cell: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            state = cell(x, state)
            return state, None

        zeros = jnp.zeros(3)
        return lax.scan(step, (zeros, zeros) if isinstance(cell, nn.LSTMCell) else zeros, xs)[0]

    def stateful(layer: Callable[[], Any], batched: bool) -> Case:
        def function(x: Any) -> Any:
            module, state = nn.make_with_state(layer)()
            if batched:
                call = jax.vmap(module, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
                return call(x, state)[0]
            return module(x, state)[0]

        return Case(function, (X,) if batched else (row,))

    def loop(kind: str) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            def unfinished(state: Any) -> Any:
                return state[1] < 4

            def body(state: Any) -> Any:
                return jnp.sin(state[0]) * x + state[0], state[1] + 1

            return eqx.internal.while_loop(unfinished, body, (x, 0), max_steps=8, kind=kind)[0]

        return function

    @eqx.filter_custom_vjp
    def filtered(x: Any) -> Any:
        return jnp.sin(x)

    filtered.def_fwd(lambda perturbed, x: (jnp.sin(x), x))
    filtered.def_bwd(lambda x, g, perturbed, x_: 4.0 * g * x)

    @eqx.filter_custom_jvp
    def filtered_jvp(x: Any) -> Any:
        return jnp.sin(x)

    filtered_jvp.def_jvp(lambda primals, tangents: (jnp.sin(primals[0]), 4.0 * tangents[0]))

    def dropped(x: Any) -> Any:
        return nn.Dropout(0.5)(x, key=jax.random.key(1))

    def scanned(x: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            return c * jnp.sin(y), c + y

        return eqx.internal.scan(step, x[0], x, kind="checkpointed", checkpoints=2)

    def checkpointed(x: Any) -> Any:
        return eqx.filter_checkpoint(lambda y: jnp.sin(y) * jnp.tanh(y))(x)

    def inner_gradient(x: Any) -> Any:
        return eqx.filter_grad(lambda y: jnp.sum(jnp.sin(y) ** 2))(x)

    found = {
        "MLP": called(lambda: nn.MLP(6, 2, 8, 2, key=key), plain, row),
        "Conv2d": called(lambda: nn.Conv2d(3, 2, 3, padding=1, key=key), plain, image),
        "ConvTranspose2d": called(
            lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, key=key), plain, image
        ),
        "LayerNorm": called(lambda: nn.LayerNorm(6), plain, row),
        "RMSNorm": called(lambda: nn.RMSNorm(6), plain, row),
        "GroupNorm": called(lambda: nn.GroupNorm(3, 3), plain, image),
        "WeightNorm": called(lambda: nn.WeightNorm(nn.Linear(6, 3, key=key)), plain, row),
        "MultiheadAttention": called(
            lambda: nn.MultiheadAttention(2, 6, key=key), lambda m, x: m(x, x, x), X
        ),
        "RotaryPositionalEmbedding": called(lambda: nn.RotaryPositionalEmbedding(6), plain, X),
        "GRUCell": called(lambda: nn.GRUCell(6, 3, key=key), cells, X),
        "LSTMCell": called(lambda: nn.LSTMCell(6, 3, key=key), cells, X),
        "PReLU": called(lambda: nn.PReLU(), plain, row),
        "Embedding": called(
            lambda: nn.Embedding(7, 3, key=key), lambda m: jax.vmap(m)(jnp.array([1, 1, 4]))
        ),
        "MaxPool2d": Case(lambda x: nn.MaxPool2d(2, 2)(x), (image,)),
        "AvgPool2d": Case(lambda x: nn.AvgPool2d(3, 2, padding=1)(x), (image,)),
        "AdaptiveMaxPool2d": Case(lambda x: nn.AdaptiveMaxPool2d(2)(x), (image,)),
        "Dropout": Case(dropped, (row,)),
        "BatchNorm": stateful(lambda: nn.BatchNorm(6, "batch", mode="batch"), True),
        "SpectralNorm": stateful(
            lambda: nn.SpectralNorm(nn.Linear(6, 3, key=key), "weight", key=key), False
        ),
        "while_loop, checkpointed": Case(loop("checkpointed"), (V,)),
        "while_loop, bounded": Case(loop("bounded"), (V,)),
        "scan, checkpointed": Case(scanned, (V,)),
        "filter_custom_vjp": Case(lambda x: filtered(x) * x, (V,)),
        "filter_custom_jvp": Case(lambda x: filtered_jvp(x) * x, (V,)),
        "filter_checkpoint": Case(checkpointed, (V,), ALL),
        "filter_grad": Case(inner_gradient, (V,), ALL),
        "filter_jit and filter_vmap": Case(
            lambda x: eqx.filter_vmap(eqx.filter_jit(lambda y: jnp.sin(y) * y))(x), (V,)
        ),
    }
    return found | {
        "MLP": found["MLP"]._replace(orders=ALL),
        "GRUCell": found["GRUCell"]._replace(orders=("first", "second")),
    }


def is_abstract_float(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) and jnp.issubdtype(leaf.dtype, jnp.floating)


def weights_of(shapes: Any) -> Any:
    """Return a tree of f64 arrays: initializers would be compiled one by one."""
    random = np.random.default_rng(1)
    return jax.tree.map(lambda s: random.uniform(-0.8, 0.9, s.shape), shapes)


def cases_of_flax() -> dict[str, Case]:
    from flax import linen as nn, nnx

    batch = rng.normal(size=(2, 4, 6))
    kinds = {"dtype": jnp.float64, "param_dtype": jnp.float64}

    def of_module(module: Any, *arguments: Any, mutable: Any = False, **named: Any) -> Case:
        key = jax.random.key(0)
        shapes = jax.eval_shape(partial(module.init, **named), key, *arguments)
        rest = {name: part for name, part in shapes.items() if name != "params"}
        state = jax.tree.map(lambda s: np.ones(s.shape) / max(s.size, 1) ** 0.5, rest)

        def function(parameters: Any, *a: Any) -> Any:
            done = module.apply({"params": parameters, **state}, *a, mutable=mutable, **named)
            return done[0] if mutable else done

        return Case(function, (weights_of(shapes.get("params", {})), *arguments))

    class Repeated(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            class Step(nn.Module):
                @nn.compact
                def __call__(self, c: Any, _: Any) -> Any:
                    return jnp.tanh(nn.Dense(6, **kinds)(c)), None

            scan = nn.scan(Step, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
            return scan()(x, None)[0]

    class Normalized(nn.Module):
        kind: Any

        @nn.compact
        def __call__(self, x: Any) -> Any:
            layer = nn.Dense(3, **kinds)
            if self.kind is nn.SpectralNorm:
                return nn.SpectralNorm(layer, **kinds)(x, update_stats=True)
            return nn.WeightNorm(layer, **kinds)(x)

    found = {
        "Dense": of_module(nn.Dense(3, **kinds), X),
        "Conv": of_module(nn.Conv(2, (3, 3), **kinds), IMAGE),
        "ConvTranspose": of_module(nn.ConvTranspose(2, (3, 3), **kinds), IMAGE),
        "LayerNorm": of_module(nn.LayerNorm(**kinds), X),
        "RMSNorm": of_module(nn.RMSNorm(**kinds), X),
        "GroupNorm": of_module(nn.GroupNorm(3, **kinds), IMAGE),
        "BatchNorm": of_module(
            nn.BatchNorm(use_running_average=False, **kinds), X, mutable=["batch_stats"]
        ),
        "BatchNorm, inference": of_module(nn.BatchNorm(use_running_average=True, **kinds), X),
        "MultiHeadDotProductAttention": of_module(
            nn.MultiHeadDotProductAttention(2, **kinds), batch, batch
        ),
        "attention with a mask": of_module(
            nn.MultiHeadDotProductAttention(2, **kinds),
            batch,
            mask=np.tri(4, dtype=bool)[None, None],
        ),
        "SpectralNorm": of_module(Normalized(nn.SpectralNorm), X, mutable=["batch_stats"]),
        "WeightNorm": of_module(Normalized(nn.WeightNorm), X),
        "RNN of LSTMCell": of_module(nn.RNN(nn.LSTMCell(3, **kinds)), batch),
        "RNN of GRUCell": of_module(nn.RNN(nn.GRUCell(3, **kinds)), batch),
        "RNN of OptimizedLSTMCell": of_module(
            nn.RNN(nn.OptimizedLSTMCell(3, **kinds), reverse=True), batch
        ),
        "Bidirectional": of_module(
            nn.Bidirectional(nn.RNN(nn.GRUCell(2, **kinds)), nn.RNN(nn.GRUCell(2, **kinds))), batch
        ),
        "ConvLSTMCell": of_module(
            nn.RNN(nn.ConvLSTMCell(2, (3, 3), **kinds)), rng.normal(size=(1, 2, 4, 4, 2))
        ),
        "remat": of_module(nn.remat(nn.Dense)(3, **kinds), X),
        "scan over layers": of_module(Repeated(), X),
        "PReLU": of_module(nn.PReLU(param_dtype=jnp.float64), X),
        "Embed": of_module(nn.Embed(7, 3, **kinds), np.array([1, 4, 1])),
        "Dropout": Case(
            lambda x: nn.Dropout(0.5, deterministic=False).apply(
                {}, x, rngs={"dropout": jax.random.key(3)}
            ),
            (X,),
        ),
        "max_pool, avg_pool": Case(
            lambda x: nn.max_pool(x, (2, 2), (2, 2)) + nn.avg_pool(x, (2, 2), (2, 2)), (IMAGE,)
        ),
    }
    # An embedding takes integers, which are not differentiable.
    embed = found["Embed"]
    found["Embed"] = Case(
        partial(call_last, embed.function, embed.arguments[1]), embed.arguments[:1]
    )
    for name, create in {
        "nnx.Linear": lambda rngs: nnx.Linear(6, 3, rngs=rngs, **kinds),
        "nnx.LayerNorm": lambda rngs: nnx.LayerNorm(6, rngs=rngs, **kinds),
        "nnx.MultiHeadAttention": lambda rngs: nnx.MultiHeadAttention(
            2, 6, rngs=rngs, decode=False, **kinds
        ),
    }.items():
        module = nnx.eval_shape(lambda create=create: create(nnx.Rngs(0)))
        definition, parameters, rest = nnx.split(module, nnx.Param, ...)
        others = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), rest)
        found[name] = Case(
            lambda p, x, definition=definition, others=others: nnx.merge(definition, p, others)(x),
            (weights_of(parameters), batch),
        )
    attention = found["nnx.MultiHeadAttention"]
    return found | {
        "Dense": found["Dense"]._replace(orders=ALL),
        "nnx.MultiHeadAttention": attention._replace(tolerance=1e-6),  # products in f32
    }


def call_last(function: Callable[..., Any], last: Any, *arguments: Any) -> Any:
    return function(*arguments, last)


def cases_of_haiku() -> dict[str, Case]:
    import haiku as hk

    key = jax.random.key(0)
    sequence = rng.normal(size=(4, 2, 6))

    def of(function: Callable[..., Any], *arguments: Any) -> Case:
        """Return the function of a module's parameters; its state is that of the first call."""
        transformed = hk.transform_with_state(function)
        parameters, state = jax.eval_shape(transformed.init, key, *arguments)
        state = jax.tree.map(lambda s: np.ones(s.shape, s.dtype) / max(s.size, 1) ** 0.5, state)
        state = jax.tree.map(lambda a: a.astype(a.dtype), state)

        def called(parameters: Any, *a: Any) -> Any:
            return transformed.apply(parameters, state, key, *a)[0]

        return Case(called, (weights_of(parameters), *arguments))

    def unrolled(core: Callable[[], Any]) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            cell = core()
            return hk.dynamic_unroll(cell, x, cell.initial_state(2))[0]

        return function

    def stack(x: Any) -> Any:
        return hk.experimental.layer_stack(3)(lambda y: jnp.tanh(hk.Linear(6)(y)))(x)

    def quantized(x: Any) -> Any:
        return hk.nets.VectorQuantizer(6, 8, 0.25)(x, is_training=True)["quantize"]

    return {
        "Linear": of(lambda x: hk.Linear(3)(x), X),
        "MLP": of(lambda x: hk.nets.MLP([5, 3], activation=jax.nn.silu)(x), X),
        "Conv2D": of(lambda x: hk.Conv2D(2, 3)(x), IMAGE),
        "LayerNorm": of(lambda x: hk.LayerNorm(-1, True, True)(x), X),
        "BatchNorm": of(lambda x: hk.BatchNorm(True, True, 0.9)(x, is_training=True), X),
        "GroupNorm": of(lambda x: hk.GroupNorm(3)(x), IMAGE),
        "MultiHeadAttention": of(
            lambda x: hk.MultiHeadAttention(2, 3, w_init_scale=1.0)(x, x, x), sequence
        ),
        "LSTM": of(unrolled(lambda: hk.LSTM(3)), sequence),
        "GRU": of(unrolled(lambda: hk.GRU(3)), sequence),
        "SpectralNorm": of(lambda x: hk.SpectralNorm()(x), X),
        "remat": of(lambda x: hk.remat(lambda y: jnp.tanh(hk.Linear(3)(y)))(x), X),
        "layer_stack": of(stack, X),
        "VectorQuantizer": of(quantized, X),
        "max_pool": Case(lambda x: hk.max_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), (IMAGE,)),
    }


def cases_of_distrax() -> dict[str, Case]:
    import distrax as dx

    x = rng.normal(size=4)
    knots = rng.normal(size=(4, 3 * 4 + 1))

    def spline(parameters: Any, y: Any) -> Any:
        made = dx.RationalQuadraticSpline(parameters, -3.0, 3.0)
        return made.forward_and_log_det(y)

    def spline_inverse(parameters: Any, y: Any) -> Any:
        made = dx.RationalQuadraticSpline(parameters, -3.0, 3.0)
        return made.inverse_and_log_det(y)

    def coupling(w: Any, y: Any) -> Any:
        made = dx.MaskedCoupling(
            jnp.arange(4) % 2 == 0,
            lambda z: (z @ w).reshape(4, 2),
            lambda p: dx.ScalarAffine(p[..., 0], log_scale=p[..., 1]),
        )
        return dx.Transformed(dx.MultivariateNormalDiag(jnp.zeros(4)), made).log_prob(y)

    def mixture(w: Any, y: Any) -> Any:
        return dx.MixtureSameFamily(
            dx.Categorical(logits=w), dx.Normal(jnp.arange(5.0), jnp.exp(w))
        ).log_prob(y)

    def hmm(w: Any, a: Any) -> Any:
        made = dx.HMM(
            dx.Categorical(logits=w[:3]),
            dx.Categorical(logits=a[:3, :3]),
            dx.Normal(jnp.arange(3.0), jnp.exp(w[:3])),
        )
        return made.forward(jnp.array([0.1, 1.2, 2.2, 0.4]))[1]

    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "MultivariateNormalFullCovariance": (
            lambda m, c, y: dx.MultivariateNormalFullCovariance(m, c).log_prob(y),
            (B, S, x),
        ),
        "MultivariateNormalTri": (
            lambda m, c, y: dx.MultivariateNormalTri(m, c + 4 * jnp.eye(4)).log_prob(y),
            (B, M, x),
        ),
        "MultivariateNormalDiagPlusLowRank": (
            lambda m, u, y: dx.MultivariateNormalDiagPlusLowRank(
                m, jnp.ones(4), u[:, :2], u[:, 2:]
            ).log_prob(y),
            (B, M * 0.1, x),
        ),
        "kl of normals": (
            lambda m, c: dx.MultivariateNormalTri(m, c + 4 * jnp.eye(4)).kl_divergence(
                dx.MultivariateNormalTri(-m, jnp.eye(4))
            ),
            (B, M),
        ),
        "sample": (
            lambda m, c: dx.MultivariateNormalTri(m, c).sample(seed=jax.random.key(0)),
            (B, M),
        ),
        "RationalQuadraticSpline": (spline, (knots, x)),
        "RationalQuadraticSpline, inverse": (spline_inverse, (knots, x)),
        "MaskedCoupling": (coupling, (rng.normal(size=(4, 8)) * 0.3, x)),
        "LowerUpperTriangularAffine": (
            lambda m, y: dx.LowerUpperTriangularAffine(m + 4 * jnp.eye(4), y).inverse_and_log_det(
                y
            ),
            (M, x),
        ),
        "Chain": (
            lambda y: dx.Chain(
                [dx.Tanh(), dx.ScalarAffine(0.1, 0.7), dx.Sigmoid()]
            ).forward_and_log_det(y),
            (x,),
        ),
        "Categorical entropy": (lambda w: dx.Categorical(logits=w).entropy(), (V,)),
        "MixtureSameFamily": (mixture, (V, np.float64(0.7))),
        "HMM": (hmm, (V, M)),
        "Beta": (lambda a, y: dx.Beta(a, 2 * a).log_prob(y), (P, U)),
        "Gamma sample": (lambda a: dx.Gamma(a, 2 * a).sample(seed=jax.random.key(1)), (P,)),
        "Dirichlet kl": (lambda a: dx.Dirichlet(a).kl_divergence(dx.Dirichlet(jnp.ones(5))), (P,)),
        "VonMises": (lambda y, k: dx.VonMises(0.3, k).log_prob(y), (V, P)),
        "VonMises entropy": (lambda k: dx.VonMises(0.3, k).entropy(), (P,)),
    }
    return {name: Case(*case) for name, case in functions.items()}


def cases_of_tfp() -> dict[str, Case]:
    from tensorflow_probability.substrates import jax as tfp

    td, tb, tm = tfp.distributions, tfp.bijectors, tfp.math
    key = jax.random.key(0)
    correlation = np.array([[1.0, 0.2, -0.1], [0.2, 1.0, 0.3], [-0.1, 0.3, 1.0]])
    points = np.linspace(0.0, 1.0, 5)[:, None]

    def process(scale: Any, y: Any) -> Any:
        kernel = tm.psd_kernels.MaternFiveHalves(length_scale=scale[0], amplitude=scale[1])
        return td.GaussianProcess(kernel, points, observation_noise_variance=0.1).log_prob(y)

    def state_space(m: Any, y: Any) -> Any:
        made = td.LinearGaussianStateSpaceModel(
            num_timesteps=4,
            transition_matrix=m[:2, :2],
            transition_noise=td.MultivariateNormalDiag(scale_diag=jnp.ones(2)),
            observation_matrix=m[2:3, :2],
            observation_noise=td.MultivariateNormalDiag(scale_diag=jnp.ones(1)),
            initial_state_prior=td.MultivariateNormalDiag(scale_diag=jnp.ones(2)),
        )
        return made.log_prob(y[:, None])

    def hidden_markov(w: Any) -> Any:
        made = td.HiddenMarkovModel(
            td.Categorical(logits=w[:2]),
            td.Categorical(logits=jnp.stack([w[:2], w[1:3]])),
            td.Normal(w[3:], 1.0),
            num_steps=4,
        )
        return made.log_prob(jnp.array([0.2, 1.1, -0.4, 0.3]))

    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "WishartTriL": (
            lambda c, x: td.WishartTriL(5.0, jnp.tril(c) + 4 * jnp.eye(4)).log_prob(x @ x.T),
            (M, M),
        ),
        "CholeskyLKJ": (
            lambda c: td.CholeskyLKJ(3, c[0] ** 2 + 1).log_prob(jnp.linalg.cholesky(correlation)),
            (V,),
        ),
        "LKJ": (lambda c, r: td.LKJ(3, c[0] ** 2 + 1).log_prob(r), (V, correlation)),
        "GaussianProcess": (process, (P[:2].copy(), V)),
        "MultivariateNormalTriL": (
            lambda m, c, x: td.MultivariateNormalTriL(m, jnp.tril(c) + 4 * jnp.eye(4)).log_prob(x),
            (B, M, 2 * B),
        ),
        "StudentT": (lambda d, x: td.StudentT(d, 0.1, 1.3).log_prob(x), (P, V)),
        "Gamma sample": (lambda a: td.Gamma(a, 2.0).sample(seed=key), (P,)),
        "Beta sample": (lambda a: td.Beta(a, 2.0).sample(seed=key), (P,)),
        "Dirichlet sample": (lambda a: td.Dirichlet(a).sample(seed=key), (P,)),
        "VonMises sample": (lambda a: td.VonMises(0.1, a).sample(seed=key), (P,)),
        "StudentT sample": (lambda a: td.StudentT(a, 0.0, 1.0).sample(seed=key), (P + 1,)),
        "VonMises cdf": (lambda x, k: td.VonMises(0.1, k).cdf(x), (V, P)),
        "FillScaleTriL": (
            lambda v: (lambda b: (b.forward(v), b.forward_log_det_jacobian(v)))(
                tb.FillScaleTriL(diag_shift=np.float64(1e-5))
            ),
            (rng.normal(size=6),),
        ),
        "SoftmaxCentered": (
            lambda v: (lambda b: (b.forward(v), b.forward_log_det_jacobian(v)))(
                tb.SoftmaxCentered()
            ),
            (V,),
        ),
        "CorrelationCholesky": (
            lambda v: (lambda b: (b.forward(v), b.forward_log_det_jacobian(v)))(
                tb.CorrelationCholesky()
            ),
            (rng.normal(size=6),),
        ),
        "LinearGaussianStateSpaceModel": (state_space, (M * 0.5, B)),
        "HiddenMarkovModel": (hidden_markov, (V,)),
        "bessel_kve": (lambda x: tm.bessel_kve(1.5, x), (P,)),
        "log_bessel_kve": (lambda v, x: tm.log_bessel_kve(v, x), (P, P[::-1].copy())),
        "bessel_ive": (lambda x: tm.bessel_ive(0.7, x), (P,)),
        "igammainv": (lambda a, p: tm.igammainv(a, p), (P, U)),
        "betaincinv": (lambda a, p: tm.betaincinv(a, 1.5, p), (P, U)),
        "betainc": (lambda a, p: tm.betainc(a, 1.5, p), (P, U)),
        "lambertw": (tm.lambertw, (P,)),
        "owens_t": (lambda x: tm.owens_t(x, 0.7), (V,)),
        "log_cumsum_exp": (tm.log_cumsum_exp, (V,)),
        "clip_by_value_preserve_gradient": (
            lambda x: tm.clip_by_value_preserve_gradient(x, 0.0, 1.0) * x,
            (V,),
        ),
        "hpsd_logdet": (tm.hpsd_logdet, (S,)),
        "cholesky_update": (lambda c, u: tm.cholesky_update(jnp.linalg.cholesky(c), u), (S, B)),
        "lbeta": (lambda a: tm.lbeta(a, 2 * a), (P,)),
    }
    return {name: Case(*case) for name, case in functions.items()}


def cases_of_jaxopt() -> dict[str, Case]:
    import jaxopt

    projection = jaxopt.projection
    a, b = rng.normal(size=(6, 3)), rng.normal(size=6)
    simplex = projection.projection_simplex

    def ridge(solver: Any) -> Callable[..., Any]:
        def objective(w: Any, penalty: Any, x: Any) -> Any:
            return jnp.mean((x @ w - b) ** 2) + penalty * jnp.sum(w**2)

        def function(penalty: Any, x: Any) -> Any:
            made = solver(objective)
            return made.run(jnp.zeros(3), penalty, x).params

        return function

    def fixed(kind: Any) -> Callable[..., Any]:
        def function(theta: Any) -> Any:
            made = kind(lambda x, t: jnp.cos(x * 0.3) + t, maxiter=200, tol=1e-13)
            return made.run(jnp.zeros(5), theta).params

        return function

    def lasso(penalty: Any) -> Any:
        def objective(w: Any) -> Any:
            return jnp.mean((a @ w - b) ** 2)

        made = jaxopt.ProximalGradient(objective, jaxopt.prox.prox_lasso, tol=1e-13, maxiter=2000)
        return made.run(jnp.zeros(3), penalty).params

    def constrained(c: Any) -> Any:
        made = jaxopt.EqualityConstrainedQP(tol=1e-13)
        return made.run(params_obj=(S, c), params_eq=(jnp.ones((1, 4)), jnp.ones(1))).params.primal

    def bisected(theta: Any) -> Any:
        made = jaxopt.Bisection(
            lambda x, t: x**3 + x - t,
            lower=-1.0,
            upper=9.0,
            tol=1e-14,
            maxiter=100,
            check_bracket=False,
        )
        return made.run(None, theta).params

    def perturbed(x: Any) -> Any:
        from jaxopt import perturbations

        def top(y: Any) -> Any:
            return jax.nn.one_hot(jnp.argmax(y), 5, dtype=y.dtype)

        make = perturbations.make_perturbed_argmax
        return make(top, num_samples=20, sigma=0.5)(x, jax.random.key(0))

    tight = {"tol": 1e-13, "maxiter": 500}
    start = (np.float64(0.3), a)
    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "projection_simplex": (simplex, (V,)),
        "projection_l1_ball": (lambda x: projection.projection_l1_ball(x, 1.5), (V,)),
        "projection_hyperplane": (
            lambda x, n: projection.projection_hyperplane(x, (n, 1.0)),
            (V, P),
        ),
        "projection_halfspace": (lambda x, n: projection.projection_halfspace(x, (n, 1.0)), (V, P)),
        "projection_l2_ball": (lambda x: projection.projection_l2_ball(x, 1.5), (V,)),
        "projection_box_section": (
            lambda x: projection.projection_box_section(
                x, (jnp.zeros(5), jnp.ones(5), jnp.ones(5), 2.0)
            ),
            (V,),
        ),
        "isotonic regression": (
            lambda x: (
                jaxopt.isotonic.isotonic_l2_pav(x)
                if hasattr(jaxopt.isotonic, "isotonic_l2_pav")
                else jaxopt.isotonic.isotonic_regression(x)
            ),
            (V,),
        ),
        "prox_lasso": (lambda x: jaxopt.prox.prox_lasso(x, 0.5), (V,)),
        "GradientDescent": (ridge(partial(jaxopt.GradientDescent, **tight)), start),
        "LBFGS": (ridge(partial(jaxopt.LBFGS, **tight)), start),
        "BFGS": (ridge(partial(jaxopt.BFGS, **tight)), start),
        "NonlinearCG": (ridge(partial(jaxopt.NonlinearCG, **tight)), start),
        "GradientDescent, unrolled": (
            ridge(partial(jaxopt.GradientDescent, implicit_diff=False, maxiter=5, stepsize=0.1)),
            start,
        ),
        "FixedPointIteration": (fixed(jaxopt.FixedPointIteration), (V,)),
        "AndersonAcceleration": (fixed(jaxopt.AndersonAcceleration), (V,)),
        "ProximalGradient": (lasso, (np.float64(0.1),)),
        "EqualityConstrainedQP": (constrained, (B,)),
        "Bisection": (bisected, (np.float64(2.3),)),
        "solve_cg": (lambda m, y: jaxopt.linear_solve.solve_cg(lambda x: m @ x, y), (S, B)),
        "multiclass_sparsemax_loss": (
            lambda x: jaxopt.loss.multiclass_sparsemax_loss(jnp.int32(1), x),
            (V,),
        ),
        "binary_sparsemax_loss": (lambda x: jaxopt.loss.binary_sparsemax_loss(1, x[0]), (V,)),
        "fenchel_young": (
            lambda x: jaxopt.loss.make_fenchel_young_loss(jax.nn.logsumexp)(U, x),
            (V,),
        ),
        "perturbed_argmax": (perturbed, (V,)),
    }
    return {name: Case(*case) for name, case in functions.items()}


class Library(NamedTuple):
    """The module that must be installed, and the cases."""

    module: str
    cases: Callable[[], dict[str, Case]]


LIBRARIES: dict[str, Library] = {
    "jax linalg": Library("jax", cases_of_linalg),
    "jax numpy": Library("jax", cases_of_numpy),
    "jax control": Library("jax", cases_of_control),
    "optax": Library("optax", cases_of_optax),
    "equinox": Library("equinox", cases_of_equinox),
    "flax": Library("flax", cases_of_flax),
    "haiku": Library("haiku", cases_of_haiku),
    "distrax": Library("distrax", cases_of_distrax),
    "tfp": Library("tensorflow_probability", cases_of_tfp),
    "jaxopt": Library("jaxopt", cases_of_jaxopt),
}


# Comparison

Key = tuple[str, str]
"""The name of a case, and "first", "second" or "vmap"."""


def weights(shape: Any) -> np.ndarray:
    """Return the weights of the elements of a result, which make a loss of it."""
    return np.random.default_rng(7).uniform(0.5, 1.0, shape)


def loss_of(function: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*arguments: Any) -> Any:
        leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(function(*arguments))]
        chosen = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        return sum(jnp.sum(jnp.real(leaf) * weights(leaf.shape)) for leaf in chosen)

    return loss


def directions(arguments: Any) -> Any:
    return jax.tree.map(lambda a: np.cos(np.arange(np.size(a))).reshape(np.shape(a)), arguments)


def batch_of(arguments: Any) -> Any:
    return jax.tree.map(lambda a: np.stack([a, np.asarray(a) * 1.01]), arguments)


def values_of(case: Case, order: str) -> tuple[Any, ...]:
    arguments = batch_of(case.arguments) if order == "vmap" else case.arguments
    return jax.tree.map(np.asarray, arguments)


def reference(case: Case, order: str) -> Callable[..., Any]:
    """Return jax's derivative, as a function of the arguments."""
    loss = loss_of(case.function)
    everything = tuple(range(len(case.arguments)))
    gradient = jax.grad(loss, argnums=everything)
    if order == "first":
        return gradient
    if order == "vmap":
        return jax.vmap(gradient)

    def product(*arguments: Any) -> Any:
        found = gradient(*arguments)
        pairs = zip(*map(jax.tree.leaves, (found, directions(case.arguments))), strict=True)
        return sum(jnp.sum(g * d) for g, d in pairs)

    return jax.grad(product, argnums=everything)


def parameters(b: xb.XlaBuilder, values: Any) -> Any:
    return jax.tree.map(lambda a: b.parameter(xb.f64[np.shape(a)]), values)


def total(ops: Iterable[xb.XlaOp], factors: Iterable[np.ndarray]) -> xb.XlaOp:
    """Return the sum of the elements of ops, each multiplied by a constant."""
    terms = []
    for op, factor in zip(ops, factors, strict=True):
        real = xb.real(op) if op.shape.element_type.is_complex else op
        real = xb.convert_element_type(real, xb.f64)
        terms.append(lib.sum(real * op.builder.constant(factor)))
    return sum(terms[1:], start=terms[0])


def by_apply(case: Case, order: str, ops: Any) -> list[xb.XlaOp]:
    """Return `lowering.gradients` of `lowering.apply`."""
    if order == "vmap":
        losses = lowering.apply(jax.vmap(loss_of(case.function)), *ops)
        return jax.tree.leaves(lowering.gradients(lib.sum(losses), ops))
    leaves = jax.tree.leaves(lowering.apply(case.function, *ops))
    kinds = [leaf.shape.element_type for leaf in leaves]
    chosen = [leaf for leaf, k in zip(leaves, kinds, strict=True) if k.is_floating or k.is_complex]
    loss = total(chosen, [weights(leaf.shape.dimensions) for leaf in chosen])
    found = jax.tree.leaves(lowering.gradients(loss, ops))
    if order == "first":
        return found
    product = total(found, jax.tree.leaves(directions(case.arguments)))
    return jax.tree.leaves(lowering.gradients(product, ops))


def by_from_jax(case: Case, order: str, ops: Any) -> list[xb.XlaOp]:
    """Return the results of a call of `lowering.grad` of `lowering.from_jax`."""
    values, tree = jax.tree.flatten(values_of(case, "first"))
    loss = loss_of(case.function)
    computation = lowering.from_jax(lambda *leaves: loss(*tree.unflatten(leaves)), *values)
    gradient = lowering.grad(computation)
    if order == "vmap":
        gradient = lowering.vmap(gradient, 2)
    if order == "second":
        inner = xb.XlaBuilder("product")
        leaves = parameters(inner, values)
        found = flat(xb.call(gradient, *leaves))
        product = total(found, jax.tree.leaves(directions(case.arguments)))
        gradient = lowering.grad(inner.build(product))
    return flat(xb.call(gradient, *jax.tree.leaves(ops)))


def flat(op: xb.XlaOp) -> list[xb.XlaOp]:
    return [leaf for part in op for leaf in flat(part)] if op.shape.is_tuple else [op]


RECORD: Mapping[str, Callable[[Case, str, Any], list[xb.XlaOp]]] = {
    "apply": by_apply,
    "from_jax": by_from_jax,
}


def refusal(error: Exception) -> str:
    return f"refused: {type(error).__name__}: {' '.join(str(error).split())[:160]}"


@cache
def cases_of(
    library: str, only: str = "", chosen: tuple[Key, ...] | None = None
) -> tuple[dict[str, Case], dict[Key, Any]]:
    """Return the cases of a library, and jax's derivatives; see `outcomes`."""
    with jax.enable_x64(True):
        cases = {n: case for n, case in LIBRARIES[library].cases().items() if only in n}
        keys = [(name, order) for name, case in cases.items() for order in case.orders]
        if chosen is not None:
            assert set(chosen) <= set(keys), set(chosen) - set(keys)
            keys = list(chosen)

        def everything(values: dict[Key, Any]) -> Any:
            return [reference(cases[n], o)(*values[n, o]) for n, o in keys]

        arguments = {(n, o): values_of(cases[n], o) for n, o in keys}
        try:
            found: list[Any] = jax.jit(everything)(arguments)
        except Exception:
            found = []
            for name, order in keys:
                derivative = jax.jit(reference(cases[name], order))
                try:
                    found.append(derivative(*arguments[name, order]))
                except Exception as error:
                    found.append(refusal(error))
        expected = {
            key: f if isinstance(f, str) else [np.asarray(leaf) for leaf in jax.tree.leaves(f)]
            for key, f in zip(keys, found, strict=True)
        }
    return cases, expected


def outcomes(
    library: str,
    path: str,
    only: str = "",
    chosen: tuple[Key, ...] | None = None,
    left_out: Container[str] = (),
) -> dict[Key, str]:
    """Return for each derivative "equal", or what differs, or the error.

    Args:
        library: a key of LIBRARIES, which must be installed.
        path: "apply" or "from_jax".
        only: a part of the names of the cases.
        chosen: the derivatives; None for all.
        left_out: names of cases that are chosen for another path only.
    """
    cases, expected = cases_of(library, only, chosen)
    expected = {key: exact for key, exact in expected.items() if key[0] not in left_out}
    found: dict[Key, str] = {}
    with jax.enable_x64(True):
        b = xb.XlaBuilder("all")
        recorded: dict[Key, list[xb.XlaOp]] = {}
        inputs: list[np.ndarray] = []
        for key, exact in expected.items():
            if isinstance(exact, str):
                found[key] = f"jax {exact}"
                continue
            case, order = cases[key[0]], key[1]
            values = values_of(case, order)
            inputs += jax.tree.leaves(values)
            ops = parameters(b, values)
            try:
                recorded[key] = RECORD[path](case, order, ops)
            except Exception as error:
                found[key] = refusal(error)
        try:
            results = run(b, recorded, inputs)
        except Exception:  # compile each one alone
            results = {}
            for key in recorded:
                case, order = cases[key[0]], key[1]
                alone, values = xb.XlaBuilder("one"), values_of(case, order)
                try:
                    ops = {key: RECORD[path](case, order, parameters(alone, values))}
                    results |= run(alone, ops, jax.tree.leaves(values))
                except Exception as error:
                    found[key] = refusal(error)
        for key, arrays in results.items():
            found[key] = verdict(arrays, expected[key], cases[key[0]].tolerance)
    return {key: found[key] for key in expected}


def run(
    b: xb.XlaBuilder, recorded: Mapping[Key, list[xb.XlaOp]], inputs: list[np.ndarray]
) -> dict[Key, list[np.ndarray]]:
    if not recorded:
        return {}
    results, tree = jax.tree.flatten(recorded)
    executable = lowering.compile(b.build(xb.tuple(*results)))
    values = executable(*inputs)
    return tree.unflatten([np.asarray(v) for v in jax.tree.leaves(values)])


def verdict(found: list[np.ndarray], expected: list[np.ndarray], tolerance: float) -> str:
    pairs = list(zip(found, expected, strict=True))
    if any(np.isnan(one).any() and not np.isnan(e).any() for one, e in pairs):
        return "NaN"
    scale = max(float(np.nanmax(np.abs(e), initial=0.0)) for e in expected)
    same_nans = all(np.array_equal(np.isnan(one), np.isnan(e)) for one, e in pairs)
    worst = max(float(np.nanmax(np.abs(one - e), initial=0.0)) for one, e in pairs)
    if same_nans and worst <= tolerance * scale:
        return "equal"
    return f"wrong: differs by {worst / scale if scale else worst:.2g} of the largest element"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=", ".join(LIBRARIES))
    parser.add_argument("--only", default="", metavar="NAME", help="a part of the names of cases")
    parser.add_argument("--list", action="store_true", help="list the equal ones, too")
    options = parser.parse_args()
    differ = 0
    for library in options.libraries or LIBRARIES:
        module = LIBRARIES[library].module
        if find_spec(module) is None:
            print(f"{library}: skipped, {module} is not installed")
            continue
        for path in PATHS:
            found = outcomes(library, path, options.only)
            counts = Counter(text.partition(":")[0] for text in found.values())
            print(f"{library}, {path}: {dict(counts)}", flush=True)
            for (name, order), text in found.items():
                differ += text != "equal"
                if options.list or text != "equal":
                    print(f"    {name}, {order}: {text}", flush=True)
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
