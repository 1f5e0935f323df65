"""The functions of `builder.lib` that are measured beside jax, and those that are left out.

A function is measured if jax computes the same in one function, or in an expression that a user
would write in its place with `jax.numpy`, `jax.nn`, `jax.lax` or `jax.random`. `LEFT_OUT` has the
other names, with the reason. Every name of `lib` is in one of the two tables.
"""

from __future__ import annotations

import math
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn, random

import builder as xb
from benchmarks.library.programs import (
    Argument,
    Program,
    indices,
    near_identity,
    positive,
    unit,
)
from builder import lib

__all__ = ["LEFT_OUT", "PROGRAMS"]

_F32: Final = (xb.f32,)

_TABLE: Final = Argument((32, 32), (4096, 1024))
_ROWS: Final = Argument((32, 32), (1024, 1024))
_SQUARE: Final = Argument((32, 32), (2048, 2048))
_UNIT: Final = Argument((32, 32), (1024, 1024), unit)
_POSITIVE: Final = Argument((32, 32), (1024, 1024), positive)
_VECTOR: Final = Argument((1024,), (1_000_000,))
_FEATURES: Final = Argument((32,), (1024,))
_PREDS: Final = Argument((32, 32), (4096, 1024), lambda rng, n: rng.random(n) < 0.01, xb.pred)
_HEADS: Final = Argument((1, 16, 2, 32), (2, 512, 8, 64))
_IMAGES: Final = Argument((1, 16, 16, 4), (8, 128, 128, 32))
_MATRIX: Final = Argument((16, 16), (256, 256))
_REGULAR: Final = Argument((16, 16), (256, 256), near_identity)
_SIDES: Final = Argument((16, 4), (256, 16))
_PROTOTYPE: Final = Argument((32, 32), (2048, 2048), None)
_SAMPLES: Final = Argument((1024,), (1_000_000,), None)
_WEIGHTS: Final = Argument((32, 32), (1024, 1024), None)
_KEY: Final = Argument((2,), (2,), lambda rng, n: rng.integers(0, 2**32, n), xb.u32)
_START: Final = Argument((), (), lambda rng, n: rng.integers(1, 8, n), xb.s32)
_SPECIAL: Final = Argument((1024,), (200_000,), positive)
_FRACTION: Final = Argument((1024,), (200_000,), unit)
_INCOMPLETE: Final = Argument((1024,), (20_000,), positive)
_INCOMPLETE_FRACTION: Final = Argument((1024,), (20_000,), unit)


def _index(small: tuple[int, ...], large: tuple[int, ...]) -> Argument:
    return Argument(small, large, indices, xb.s32)


def _key(data: Any) -> Any:
    return random.wrap_key_data(data)


def _along(name: str, ours: Any, theirs: Any) -> Program:
    """Return a reduction of the rows of a table."""
    return Program(name, lambda x: ours(x, axis=1), lambda x: theirs(x, axis=1), (_TABLE,))


def _each(name: str, theirs: Any, *arguments: Argument, **options: Any) -> Program:
    """Return a function that takes the same arguments here and in jax."""
    return Program(name, getattr(lib, name), theirs, arguments, **options)


_REDUCTIONS: Final = (
    _along("sum", lib.sum, jnp.sum),
    _along("prod", lib.prod, jnp.prod),
    _along("mean", lib.mean, jnp.mean),
    _along("var", lib.var, jnp.var),
    _along("std", lib.std, jnp.std),
    _along("max", lib.max, jnp.max),
    _along("min", lib.min, jnp.min),
    _along("logsumexp", lib.logsumexp, nn.logsumexp),
    _along("norm", lib.norm, jnp.linalg.norm),
    _along("arg_max", lambda x, axis: lib.arg_max(x, xb.s32, axis), jnp.argmax),
    _along("arg_min", lambda x, axis: lib.arg_min(x, xb.s32, axis), jnp.argmin),
    Program("all", lambda x: lib.all(x, 1), lambda x: jnp.all(x, 1), (_PREDS,), _F32),
    Program("any", lambda x: lib.any(x, 1), lambda x: jnp.any(x, 1), (_PREDS,), _F32),
    Program("cumsum", lambda x: lib.cumsum(x, 0), lambda x: lax.cumsum(x, 0), (_VECTOR,)),
    Program("cumprod", lambda x: lib.cumprod(x, 0), lambda x: lax.cumprod(x, 0), (_VECTOR,)),
    Program("cummax", lambda x: lib.cummax(x, 0), lambda x: lax.cummax(x, 0), (_VECTOR,)),
    Program("cummin", lambda x: lib.cummin(x, 0), lambda x: lax.cummin(x, 0), (_VECTOR,)),
    Program(
        "cumlogsumexp",
        lambda x: lib.cumlogsumexp(x, 0),
        lambda x: lax.cumlogsumexp(x, 0),
        (_VECTOR,),
    ),
)

_ELEMENTWISE: Final = (
    _each("is_inf", jnp.isinf, _TABLE),
    _each("is_nan", jnp.isnan, _TABLE),
    _each("is_neg_inf", jnp.isneginf, _TABLE),
    _each("is_pos_inf", jnp.isposinf, _TABLE),
    _each("is_neg_zero", lambda x: (x == 0) & jnp.signbit(x), _TABLE),
    _each("round_to_even", jnp.round, _TABLE),
    _each("next_after", jnp.nextafter, _ROWS, _ROWS),
    Program("maybe_conjugate", lambda x: lib.maybe_conjugate(x, True), jnp.conj, (_TABLE,)),
    Program("clip", lambda x: lib.clip(x, -1.0, 1.0), lambda x: jnp.clip(x, -1.0, 1.0), (_TABLE,)),
    Program(
        "where",
        lambda x, y: lib.where(x > 0.0, x, y),
        lambda x, y: jnp.where(x > 0, x, y),
        (_ROWS, _ROWS),
    ),
    _each("stop_gradient", lax.stop_gradient, _TABLE),
    _each("erfc", lax.erfc, _ROWS),
    _each("erf_inv", lax.erf_inv, _UNIT),
    _each("lgamma", lax.lgamma, _POSITIVE),
    _each("digamma", lax.digamma, _POSITIVE),
    _each("bessel_i0e", lax.bessel_i0e, _ROWS),
    _each("bessel_i1e", lax.bessel_i1e, _ROWS),
    _each("igamma", lax.igamma, _INCOMPLETE, _INCOMPLETE),
    _each("igammac", lax.igammac, _INCOMPLETE, _INCOMPLETE),
    _each("igamma_grad_a", lax.igamma_grad_a, _INCOMPLETE, _INCOMPLETE),
    _each("random_gamma_grad", lax.random_gamma_grad, _INCOMPLETE, _INCOMPLETE),
    _each(
        "regularized_incomplete_beta",
        lax.betainc,
        _INCOMPLETE,
        _INCOMPLETE,
        _INCOMPLETE_FRACTION,
    ),
    Program(
        "zeta", lambda x, q: lib.zeta(x + 1.0, q), lambda x, q: lax.zeta(x + 1, q), (_SPECIAL,) * 2
    ),
    Program(
        "polygamma",
        lambda x: lib.polygamma(lib.full_like(x, 2.0), x),
        lambda x: lax.polygamma(jnp.full_like(x, 2.0), x),
        (_SPECIAL,),
    ),
)

_NETWORKS: Final = (
    _each("relu", nn.relu, _TABLE),
    _each("sigmoid", nn.sigmoid, _TABLE),
    _each("silu", nn.silu, _TABLE),
    _each("gelu", nn.gelu, _TABLE),
    _each("softmax", nn.softmax, _TABLE),
    _each("log_softmax", nn.log_softmax, _TABLE),
    _each("layer_norm", lambda x: nn.standardize(x, epsilon=1e-5), _TABLE),
    _each(
        "rms_norm",
        lambda x: (
            x * lax.rsqrt(jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True) + 1e-6)
        ).astype(x.dtype),
        _TABLE,
    ),
    _each("linear", lambda x, w, b: x @ w + b, _MATRIX, _MATRIX, Argument((16,), (256,))),
    Program(
        "dropout",
        lambda key, x: lib.dropout(key, x, 0.25),
        lambda key, x: jnp.where(random.bernoulli(_key(key), 0.75, x.shape), x / 0.75, 0),
        (_KEY, _ROWS),
    ),
    _each(
        "cross_entropy",
        lambda x, y: -jnp.take_along_axis(nn.log_softmax(x), y[:, None], 1)[:, 0],
        _ROWS,
        _index((32,), (1024,)),
    ),
    _each(
        "binary_cross_entropy",
        lambda x, y: -jnp.mean(y * nn.log_sigmoid(x) + (1 - y) * nn.log_sigmoid(-x)),
        _ROWS,
        _UNIT,
    ),
    _each("mse", lambda x, y: jnp.mean(jnp.square(x - y)), _TABLE, _TABLE),
    _each(
        "huber",
        lambda x, y: jnp.mean(
            jnp.where(jnp.abs(x - y) <= 1, jnp.square(x - y) / 2, jnp.abs(x - y) - 0.5)
        ),
        _ROWS,
        _ROWS,
    ),
    Program(
        "dot_product_attention",
        lambda q, k, v: lib.dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True),
        (_HEADS,) * 3,
    ),
    _each("rotary_embedding", lambda x, n: _rotated(x, n), _HEADS, _index((16,), (512,))),
    Program(
        "max_pool",
        lambda x: lib.max_pool(x, [2, 2], [2, 2], "VALID", "NHWC"),
        lambda x: _pooled(x, -jnp.inf, lax.max),
        (_IMAGES,),
    ),
    Program(
        "avg_pool",
        lambda x: lib.avg_pool(x, [2, 2], [2, 2], "VALID", "NHWC", True),
        lambda x: _pooled(x, 0.0, lax.add) / 4,
        (_IMAGES,),
    ),
    Program(
        "avg_pool_grad",
        lambda g: lib.avg_pool_grad(
            g,
            _doubled(g.shape.dimensions),
            [2, 2],
            [2, 2],
            "VALID",
            "NHWC",
            True,
        ),
        lambda g: jax.linear_transpose(
            lambda x: _pooled(x, 0.0, lax.add) / 4,
            jax.ShapeDtypeStruct(_doubled(g.shape), g.dtype),
        )(g)[0],
        (Argument((1, 8, 8, 16), (8, 64, 64, 32)),),
    ),
    _each(
        "conv",
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        Argument((1, 8, 8, 16), (4, 64, 64, 32)),
        Argument((3, 3, 16, 16), (3, 3, 32, 32)),
    ),
)


def _pooled(x: Any, init: float, combine: Any) -> Any:
    return lax.reduce_window(
        x, np.array(init, x.dtype), combine, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
    )


def _doubled(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of the images that `_pooled` reduces to others."""
    batch, height, width, features = sizes
    return batch, 2 * height, 2 * width, features


def _rotated(x: Any, positions: Any) -> Any:
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    first, second = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    rotated = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
    return rotated.astype(x.dtype)


_ARRAYS: Final = (
    Program(
        "broadcast_to",
        lambda x: lib.broadcast_to(x, [x.shape.dimensions[0]] * 2),
        lambda x: jnp.broadcast_to(x, (x.shape[0],) * 2),
        (Argument((32,), (2048,)),),
    ),
    Program("expand_dims", lambda x: lib.expand_dims(x, 1), lambda x: x[:, None], (_TABLE,)),
    Program("squeeze", lib.squeeze, jnp.squeeze, (Argument((32, 1, 32), (4096, 1, 1024)),)),
    Program(
        "stack", lambda x, y: lib.stack([x, y], 1), lambda x, y: jnp.stack([x, y], 1), (_ROWS,) * 2
    ),
    Program("split", lambda x: lib.split(x, 2, 1), lambda x: tuple(jnp.split(x, 2, 1)), (_TABLE,)),
    Program(
        "concat_scalars",
        lambda *x: lib.concat_scalars(x),
        lambda *x: jnp.stack(x),
        (Argument((), ()),) * 3,
    ),
    Program("tile", lambda x: lib.tile(x, [1, 2]), lambda x: jnp.tile(x, (1, 2)), (_ROWS,)),
    Program("repeat", lambda x: lib.repeat(x, 2, 1), lambda x: jnp.repeat(x, 2, 1), (_ROWS,)),
    Program("roll", lambda x: lib.roll(x, 5, 1), lambda x: jnp.roll(x, 5, 1), (_TABLE,)),
    Program("flip", lambda x: lib.flip(x, 1), lambda x: jnp.flip(x, 1), (_TABLE,)),
    Program(
        "take",
        lambda x, i: lib.take(x, i, 0),
        lambda x, i: jnp.take(x, i, 0),
        (_TABLE, _index((32,), (4096,))),
    ),
    Program(
        "take_along_axis",
        lambda x, i: lib.take_along_axis(x, i, 1),
        lambda x, i: jnp.take_along_axis(x, i, 1),
        (_ROWS, _index((32, 32), (1024, 1024))),
    ),
    Program(
        "put_along_axis",
        lambda x, i, y: lib.put_along_axis(x, i, y, 1),
        lambda x, i, y: jnp.put_along_axis(x, i, y, 1, inplace=False),
        (_ROWS, _index((32, 1), (1024, 1)), Argument((32, 1), (1024, 1))),
    ),
    Program(
        "torch_gather",
        lambda x, i: lib.torch_gather(x, i, 1),
        lambda x, i: jnp.take_along_axis(x, i, 1, mode="clip"),
        (_ROWS, _index((32, 32), (1024, 1024))),
    ),
    Program(
        "torch_index_select",
        lambda x, i: lib.torch_index_select(x, i, 0),
        lambda x, i: jnp.take(x, i, 0, mode="clip"),
        (_TABLE, _index((32,), (4096,))),
    ),
    Program(
        "torch_scatter_dense",
        lambda x, i, y: lib.torch_scatter_dense(x, i, y, 1, xb.add),
        lambda x, i, y: x.at[jnp.arange(x.shape[0])[:, None], i].add(y, mode="drop"),
        (
            Argument((32, 32), (256, 256)),
            _index((32, 32), (256, 256)),
            Argument((32, 32), (256, 256)),
        ),
    ),
    Program(
        "one_hot",
        lambda i: lib.one_hot(i, i.shape.dimensions[0]),
        lambda i: nn.one_hot(i, i.shape[0]),
        (_index((32,), (2048,)),),
        _F32,
    ),
    Program(
        "indices_along",
        lambda x: lib.indices_along(x, 1),
        lambda x: lax.broadcasted_iota(jnp.int32, x.shape, 1),
        (_TABLE,),
    ),
    Program(
        "slice_in_minor_dims",
        lambda x: lib.slice_in_minor_dims(x, [2, 2], [30, 30]),
        lambda x: x[..., 2:30, 2:30],
        (Argument((2, 32, 32), (4096, 32, 32)),),
    ),
    Program(
        "dynamic_slice_in_minor_dims",
        lambda x, i: lib.dynamic_slice_in_minor_dims(x, [i], [16]),
        lambda x, i: lax.dynamic_slice_in_dim(x, i, 16, 1),
        (Argument((32, 32), (65536, 32)), _START),
    ),
    Program(
        "dynamic_update_slice_in_minor_dims",
        lambda x, y, i: lib.dynamic_update_slice_in_minor_dims(x, y, [i]),
        lambda x, y, i: lax.dynamic_update_slice_in_dim(x, y, i, 1),
        (Argument((32, 32), (65536, 32)), Argument((32, 16), (65536, 16)), _START),
    ),
    Program(
        "update_slice",
        lambda x, y: lib.update_slice(x, y, [0, 4]),
        lambda x, y: lax.dynamic_update_slice(x, y, (0, 4)),
        (Argument((32, 32), (65536, 32)), Argument((32, 16), (65536, 16))),
    ),
    Program(
        "update_slice_in_minor_dims",
        lambda x, y: lib.update_slice_in_minor_dims(x, y, [4]),
        lambda x, y: lax.dynamic_update_slice_in_dim(x, y, 4, 1),
        (Argument((32, 32), (65536, 32)), Argument((32, 16), (65536, 16))),
    ),
    Program("zeros", lambda p: lib.zeros(*p), lambda p: jnp.zeros(p.shape, p.dtype), (_PROTOTYPE,)),
    _each("zeros_like", jnp.zeros_like, _TABLE),
    Program(
        "full_like", lambda x: lib.full_like(x, 2.0), lambda x: jnp.full_like(x, 2.0), (_TABLE,)
    ),
    Program(
        "eye",
        lambda p: lib.eye(p.builder, *p.shape.dimensions, p.shape.element_type),
        lambda p: jnp.eye(*p.shape, dtype=p.dtype),
        (_PROTOTYPE,),
    ),
    Program(
        "tri",
        lambda p: lib.tri(p.builder, *p.shape.dimensions, 0, p.shape.element_type),
        lambda p: jnp.tri(*p.shape, dtype=p.dtype),
        (_PROTOTYPE,),
    ),
    Program(
        "linspace",
        lambda p: lib.linspace(p.builder, 0.0, 1.0, *p.shape.dimensions, p.shape.element_type),
        lambda p: jnp.linspace(0.0, 1.0, *p.shape, dtype=p.dtype),
        (_SAMPLES,),
    ),
    Program("argsort", lib.argsort, jnp.argsort, (Argument((32, 32), (64, 4096)),)),
    Program(
        "top_k_with_partitions",
        lambda x: tuple(lib.top_k_with_partitions(x, 8)),
        lambda x: tuple(lax.top_k(x, 8)),
        (Argument((32, 32), (64, 4096)),),
    ),
    Program(
        "for_each_index",
        lambda x: lib.for_each_index(10, xb.s32, lambda _, s: [s[0] * 0.5 + 1.0], [x])[0],
        lambda x: lax.fori_loop(0, 10, lambda _, s: s * 0.5 + 1.0, x),
        (_ROWS,),
    ),
    Program(
        "while_loop_helper",
        lambda x: lib.while_loop_helper(
            lambda s: s[0] < 10,
            lambda s: [s[0] + 1, s[1] * 0.5 + 1.0],
            [x.builder.constant(0, xb.s32), x],
        )[1],
        lambda x: lax.while_loop(
            lambda s: s[0] < 10, lambda s: (s[0] + 1, s[1] * 0.5 + 1.0), (0, x)
        )[1],
        (_ROWS,),
    ),
)

_MATRICES: Final = (
    _each("matmul", jnp.matmul, _MATRIX, _MATRIX),
    _each(
        "batch_dot",
        jnp.matmul,
        Argument((4, 16, 16), (16, 128, 128)),
        Argument((4, 16, 16), (16, 128, 128)),
    ),
    Program(
        "einsum",
        lambda x, y: lib.einsum(x, y, "bqhd,bkhd->bhqk"),
        lambda x, y: jnp.einsum("bqhd,bkhd->bhqk", x, y),
        (_HEADS,) * 2,
    ),
    _each("transpose_in_minor_dims", jnp.matrix_transpose, _SQUARE),
    Program(
        "maybe_transpose_in_minor_dims",
        lambda x: lib.maybe_transpose_in_minor_dims(x, True),
        jnp.matrix_transpose,
        (_SQUARE,),
    ),
    _each("lower_triangle", jnp.tril, _SQUARE),
    _each("upper_triangle", jnp.triu, _SQUARE),
    Program("triangle", lambda x: lib.triangle(x, True), jnp.tril, (_SQUARE,)),
    Program(
        "triangle_mask",
        lambda x: lib.triangle_mask(x, 0),
        lambda x: jnp.tri(*x.shape, dtype=bool),
        (_SQUARE,),
    ),
    _each("get_diagonal_mask", lambda x: jnp.eye(*x.shape, dtype=bool), _SQUARE),
    _each("get_matrix_diagonal", jnp.diagonal, _SQUARE),
    _each("get_matrix_diagonal_via_gather", jnp.diagonal, _SQUARE),
    _each(
        "set_matrix_diagonal",
        lambda x, d: jnp.fill_diagonal(x, d, inplace=False),
        _SQUARE,
        Argument((32,), (2048,)),
    ),
    Program(
        "symmetrize",
        lambda x: lib.symmetrize(x, True),
        lambda x: jnp.tril(x) + jnp.tril(x, -1).T,
        (_SQUARE,),
    ),
    _each("det", jnp.linalg.det, _REGULAR, types=_F32),
    _each("logdet", lambda x: jnp.linalg.slogdet(x)[1], _REGULAR, types=_F32),
    _each("slogdet", lambda x: tuple(jnp.linalg.slogdet(x)), _REGULAR, types=_F32),
    _each("inv", jnp.linalg.inv, _REGULAR, types=_F32),
    _each("solve", jnp.linalg.solve, _REGULAR, _SIDES, types=_F32),
    _each("lstsq", lambda a, b: jnp.linalg.lstsq(a, b)[0], _REGULAR, _SIDES, types=_F32),
    _each(
        "cholesky_solve",
        lambda a, b: jax.scipy.linalg.cho_solve((a, True), b),
        _REGULAR,
        _SIDES,
        types=_F32,
    ),
    _each("lu", lambda x: tuple(lax.linalg.lu(x)), _MATRIX, types=_F32),
    _each("qr", lambda x: tuple(jnp.linalg.qr(x)), _MATRIX, types=_F32),
    Program(
        "qr_decomposition",
        lib.qr_decomposition,
        # NumPy's raw form is transposed, for LAPACK.
        lambda x: (lambda h, taus: (h.T, taus))(*jnp.linalg.qr(x, "raw")),
        (_MATRIX,),
        _F32,
    ),
    _each(
        "product_of_elementary_householder_reflectors",
        lax.linalg.householder_product,
        _REGULAR,
        Argument((16,), (256,), unit),
        types=_F32,
    ),
    _each(
        "svd",
        lambda x: (lambda u, s, vh: (u, s, vh.T))(*jnp.linalg.svd(x)),
        _MATRIX,
        types=_F32,
        any_sign=True,
    ),
    _each("svdvals", jnp.linalg.svdvals, _MATRIX, types=_F32),
    _each("pinv", jnp.linalg.pinv, _REGULAR, types=_F32),
    _each("matrix_rank", jnp.linalg.matrix_rank, _REGULAR, types=_F32),
    _each(
        "eigh",
        lambda x: tuple(jnp.linalg.eigh(x, symmetrize_input=False))[::-1],
        _MATRIX,
        types=_F32,
        any_sign=True,
    ),
    _each(
        "eigvalsh",
        lambda x: jnp.linalg.eigvalsh(x, symmetrize_input=False),
        _MATRIX,
        types=_F32,
    ),
    _each(
        "tridiagonal_mat_mul",
        lambda upper, main, lower, x: (
            main[0][:, None] * x
            + jnp.pad(upper[0, :-1, None] * x[1:], ((0, 1), (0, 0)))
            + jnp.pad(lower[0, 1:, None] * x[:-1], ((1, 0), (0, 0)))
        ),
        *(Argument((1, 16), (1, 65536)),) * 3,
        Argument((16, 4), (65536, 16)),
    ),
    Program(
        "tridiagonal_solver",
        lambda lower, main, upper, x: lib.tridiagonal_solver(lower, main + 8.0, upper, x),
        lambda lower, main, upper, x: (
            lax.linalg.tridiagonal_solve(lower[0], main[0] + 8, upper[0], x.T).T
        ),
        (*(Argument((1, 16), (1, 65536)),) * 3, Argument((4, 16), (4, 65536))),
        _F32,
    ),
)


def _sampled(name: str, theirs: Any, like: Argument = _SAMPLES, **options: Any) -> Program:
    """Return a distribution whose arguments are a key and the shape of the samples.

    The key is derived, as in programs; XLA must not derive it again for each sample.
    """
    return Program(
        name,
        lambda key, p: getattr(lib, name)(lib.fold_in(key, 1), p.shape),
        lambda key, p: theirs(random.fold_in(_key(key), 1), p.shape, p.dtype),
        (_KEY, like),
        **options,
    )


_RANDOM: Final = (
    Program(
        "random_key",
        lambda seed: lib.random_key(seed.builder, seed),
        lambda seed: random.key_data(random.key(seed)),
        (Argument((), (), lambda rng, n: rng.integers(0, 100, n), xb.u32),),
        _F32,
    ),
    Program(
        "fold_in",
        lambda key, n: lib.fold_in(key, n),
        lambda key, n: random.key_data(random.fold_in(_key(key), n)),
        (_KEY, Argument((), (), lambda rng, n: rng.integers(0, 100, n), xb.u32)),
        _F32,
    ),
    Program(
        "split_key",
        lib.split_key,
        lambda key: tuple(random.key_data(random.split(_key(key)))),
        (_KEY,),
        _F32,
    ),
    Program(
        "key_array",
        lambda key, p: lib.key_array(key, p.shape.dimensions),
        lambda key, p: random.key_data(random.split(_key(key), p.shape)),
        (_KEY, _SAMPLES),
        _F32,
    ),
    Program(
        "random_bits",
        lambda key, p: lib.random_bits(key, p.shape),
        lambda key, p: random.bits(_key(key), p.shape, p.dtype),
        (_KEY, Argument((1024,), (1_000_000,), None, xb.u32)),
        _F32,
    ),
    Program(
        "randint",
        lambda key, p: lib.randint(key, p.shape, 0, 100),
        lambda key, p: random.randint(_key(key), p.shape, 0, 100, p.dtype),
        (_KEY, Argument((1024,), (1_000_000,), None, xb.s32)),
        _F32,
    ),
    _sampled("uniform", random.uniform),
    _sampled("normal", random.normal),
    _sampled("exponential", random.exponential),
    _sampled("gumbel", random.gumbel),
    _sampled("glorot_normal", nn.initializers.glorot_normal(), _WEIGHTS),
    _sampled("glorot_uniform", nn.initializers.glorot_uniform(), _WEIGHTS),
    _sampled("he_normal", nn.initializers.he_normal(), _WEIGHTS),
    _sampled("he_uniform", nn.initializers.he_uniform(), _WEIGHTS),
    _sampled(
        "orthogonal",
        nn.initializers.orthogonal(),
        Argument((16, 16), (256, 256), None),
        types=_F32,
    ),
    Program(
        "truncated_normal",
        lambda key, p: lib.truncated_normal(key, -2.0, 2.0, p.shape),
        lambda key, p: random.truncated_normal(_key(key), -2.0, 2.0, p.shape, p.dtype),
        (_KEY, _SAMPLES),
    ),
    Program(
        "bernoulli",
        lambda key, p: lib.bernoulli(key, 0.25, xb.array_shape(xb.pred, p.shape.dimensions)),
        lambda key, p: random.bernoulli(_key(key), 0.25, p.shape),
        (_KEY, _SAMPLES),
        _F32,
    ),
    Program(
        "categorical",
        lib.categorical,
        lambda key, x: random.categorical(_key(key), x),
        (_KEY, _ROWS),
    ),
    Program(
        "permutation",
        lib.permutation,
        lambda key, x: random.permutation(_key(key), x),
        (_KEY, Argument((1024,), (100_000,))),
    ),
    _each(
        "box_muller_transform",
        lambda x, y: (
            jnp.sqrt(-2 * jnp.log(jnp.maximum(x, 1e-7))) * jnp.sin(2 * math.pi * y),
            jnp.sqrt(-2 * jnp.log(jnp.maximum(x, 1e-7))) * jnp.cos(2 * math.pi * y),
        ),
        _UNIT,
        _UNIT,
    ),
)

PROGRAMS: Final = (
    *_REDUCTIONS,
    *_ELEMENTWISE,
    *_NETWORKS,
    *_ARRAYS,
    *_MATRICES,
    *_RANDOM,
)
"""The functions that are measured, by family."""

_NO_FUNCTION: Final = "is a class or a table"
_SCALAR: Final = "is a scalar constant, whose execution copies one number"
_NO_RESULT: Final = "computes in Python, or combines ops without executing anything"
_COMPARATOR: Final = "returns a comparator, which `argsort` and the other users measure"
_GENERATOR: Final = "has the state of a generator of XLA's library, which jax does not have"

LEFT_OUT: Final = {
    **dict.fromkeys(
        (
            "FUNCTIONS",
            "LibraryFunction",
            "QuantizedRange",
            "RngOutput",
            "SpatialDimensionOutputSizeAndPadding",
            "TensorFormat",
        ),
        _NO_FUNCTION,
    ),
    **dict.fromkeys(
        (
            "constant_r0_with_type",
            "epsilon",
            "max_finite_value",
            "max_value",
            "min_finite_value",
            "min_positive_normal_value",
            "min_value",
            "nan_value",
            "one",
            "scalar_like",
            "zero",
        ),
        _SCALAR,
    ),
    **dict.fromkeys(
        (
            "approx_top_k_reduction_output_size",
            "assemble_tuple",
            "conv_grad_extract_and_verify_dimension",
            "disassemble_tuple",
            "make_spatial_padding",
            "pack_to_uint32",
        ),
        _NO_RESULT,
    ),
    **dict.fromkeys(
        (
            "create_scalar_comparison_computation",
            "create_scalar_gt_computation",
            "create_scalar_lt_computation",
        ),
        _COMPARATOR,
    ),
    **dict.fromkeys(
        (
            "convert_random_bits_to_uniform_floating_point",
            "normal_floating_point_distribution",
            "philox_bit_generator",
            "philox_increase_counter",
            "scramble_philox_key",
            "three_fry_bit_generator",
            "uniform_floating_point_distribution",
            "uniform_int_distribution",
        ),
        _GENERATOR,
    ),
    "approx_top_k": "returns other elements than jax's approximation, and runs other algorithms",
    "approx_top_k_fallback": "is a part of `approx_top_k`",
    "dequantize": "reads packed integers, for which jax has no function",
    "dynamic_conditional": "returns results of different sizes, which jax does not have",
}
"""The names of `lib` that are not measured, with the reason."""
