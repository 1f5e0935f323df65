"""builder.lib.attention, compared with NumPy in double precision and with jax.nn."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import scipy.special
from library_calls import run
from tables import each_row

import builder as xb
import lowering
from builder import lib

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


def reference(
    query: Any, key: Any, value: Any, bias: Any = 0.0, mask: Any = True, causal: bool = False
) -> Any:
    """Attention in double precision; the heads of key and value are repeated."""
    q, k, v = (each.astype(np.float64) for each in (query, key, value))
    k, v = (each.repeat(q.shape[-2] // each.shape[-2], -2) for each in (k, v))
    logits = np.einsum("...tnh,...snh->...nts", q, k) / np.sqrt(q.shape[-1])
    logits = logits + np.asarray(bias, np.float64)
    t, s = logits.shape[-2:]
    allowed = mask & (np.tri(t, s, dtype=bool) if causal else np.full((t, s), True))
    logits = np.where(allowed, logits, -1e300)
    return np.einsum("...nts,...snh->...tnh", scipy.special.softmax(logits, -1), v)


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention(dtype: Any) -> None:
    """Within 2 ulps of the largest value for narrow types, as the weights are rounded; else 16."""
    generator = np.random.default_rng(1)

    def normal(*sizes: int) -> Any:
        return generator.normal(0, 1, sizes).astype(dtype)

    q, k, v = normal(2, 5, 6, 8), normal(2, 7, 3, 8), normal(2, 7, 3, 4)
    one, per_head, per_batch = normal(5, 7), normal(6, 5, 1), normal(2, 1, 1, 7)
    mask = generator.random((2, 6, 5, 7)) < 0.5
    mask[0, 1, 2] = False
    column = np.arange(7) < 4
    arrays = (q, k, v, one, per_head, per_batch, mask, column)

    def function(*ops: xb.XlaOp) -> tuple[xb.XlaOp, ...]:
        q, k, v, one, per_head, per_batch, mask, column = ops
        return (
            lib.dot_product_attention(q, k, v),
            lib.dot_product_attention(q, k, v, is_causal=True),
            lib.dot_product_attention(q, k, v, one, is_causal=True),
            lib.dot_product_attention(q, k, v, per_head, mask),
            lib.dot_product_attention(q, k, v, per_batch, column, is_causal=True),
            lib.dot_product_attention(q, q, q),
            lib.dot_product_attention(
                *(
                    xb.reshape(x, x.shape.dimensions[1:])
                    for x in [xb.slice_in_dim(x, 0, 1) for x in (q, k, v)]
                )
            ),
        )

    expected = (
        reference(q, k, v),
        reference(q, k, v, causal=True),
        reference(q, k, v, one, causal=True),
        reference(q, k, v, per_head, mask),
        reference(q, k, v, per_batch, column, causal=True),
        reference(q, q, q),
        reference(q[0], k[0], v[0]),
    )
    eps = float(ml_dtypes.finfo(dtype).eps)
    for got, wanted in zip(run(function, *arrays), expected, strict=True):
        assert got.dtype == dtype
        error = np.abs(got.astype(np.float64) - wanted).max() / np.abs(wanted).max()
        assert error <= eps * (2 if eps > 1e-6 else 16)


def test_attention_matches_jax() -> None:
    """Also where a position attends to nothing, and with biases of -infinity."""
    generator = np.random.default_rng(2)
    q = generator.normal(0, 1, (3, 4, 4, 8)).astype(np.float32)
    k, v = generator.normal(0, 1, (2, 3, 6, 2, 8)).astype(np.float32)
    mask = generator.random((3, 4, 4, 6)) < 0.4
    bias = np.where(generator.random((1, 1, 4, 6)) < 0.3, -np.inf, 1).astype(np.float32)
    masked, causal = run(
        lambda q, k, v, bias, mask: (
            lib.dot_product_attention(q, k, v, mask=mask, scale=0.5),
            lib.dot_product_attention(q, k, v, bias, is_causal=True),
        ),
        *(q, k, v, bias, mask),
    )
    attention = jax.nn.dot_product_attention
    np.testing.assert_allclose(
        masked, attention(q, k, v, mask=jnp.asarray(mask), scale=0.5), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        causal, attention(q, k, v, jnp.asarray(bias), is_causal=True), rtol=1e-5, atol=1e-6
    )


def test_arrays_of_the_size_of_the_logits_are_at_most_those_of_jax() -> None:
    sizes, logits = (2, 256, 4, 32), 2 * 4 * 256 * 256 * 4
    b = xb.XlaBuilder("attention")
    q, k, v = (b.parameter(xb.f32[sizes]) for _ in range(3))
    root = lib.dot_product_attention(q, k, v, is_causal=True)
    shape = jax.ShapeDtypeStruct(sizes, np.float32)
    attention = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True))
    expected = attention.lower(shape, shape, shape).compile().memory_analysis()
    got = lowering.compile(b.build(root), "cpu").memory()
    assert got.temporary // logits <= expected.temp_size_in_bytes // logits


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(dtype: Any, interleaved: bool) -> None:
    """Within 1 ulp of the largest value for narrow types, else 32 (angles are rounded)."""
    generator = np.random.default_rng(3)
    x = generator.normal(0, 1, (2, 5, 3, 8)).astype(dtype)
    shared = np.arange(7, 12, dtype=np.int32)
    own = generator.integers(0, 30, (2, 5))
    results = run(
        lambda x, shared, own: (
            lib.rotary_embedding(x, shared, interleaved=interleaved),
            lib.rotary_embedding(x, own, 500.0, interleaved),
        ),
        *(x, shared, own),
    )
    wide = x.astype(np.float64)
    for got, positions, base in zip(results, (shared, own), (1e4, 500.0), strict=True):
        pairs = (
            wide.reshape(*x.shape[:-1], 4, 2)
            if interleaved
            else wide.reshape(*x.shape[:-1], 2, 4).swapaxes(-1, -2)
        )
        angles = np.broadcast_to(positions, (2, 5))[..., None, None] * base ** (-np.arange(4) / 4)
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)
        parts = (turned.real, turned.imag)
        expected = (
            np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)
        )
        assert got.dtype == dtype
        eps = float(ml_dtypes.finfo(dtype).eps)
        error = np.abs(got.astype(np.float64) - expected).max() / np.abs(expected).max()
        assert error <= eps * (1 if eps > 1e-6 else 32)


def test_empty_arrays() -> None:
    nothing = np.zeros((0, 4, 2, 6), np.float32)
    attended, rotated = run(
        lambda x: (
            lib.dot_product_attention(x, x, x),
            lib.rotary_embedding(x, x.builder.iota(xb.s32[4], 0)),
        ),
        nothing,
    )
    assert attended.shape == rotated.shape == nothing.shape


def arrays(*texts: str) -> list[xb.XlaOp]:
    b = xb.XlaBuilder()
    return [b.parameter(text) for text in texts]


Q, KV = "f32[2,5,6,8]", "f32[2,7,3,8]"


@each_row(
    "call, message",
    [
        (
            lambda: lib.dot_product_attention(*arrays(Q, "f32[2,7,4,8]", "f32[2,7,4,8]")),
            "dot_product_attention: the heads of key must divide those of query, got 4 and 6",
        ),
        (
            lambda: lib.dot_product_attention(*arrays(Q, KV, "f32[2,6,3,8]")),
            "dot_product_attention: value must be f32[2,7,3,8] for a query f32[2,5,6,8] and a key",
        ),
        (
            lambda: lib.dot_product_attention(*arrays(Q, "bf16[2,7,3,8]", KV)),
            "dot_product_attention: key must be f32[2,7,3,8] for a query f32[2,5,6,8]",
        ),
        (
            lambda: lib.dot_product_attention(*arrays(Q, KV, KV, "f32[3,5,7]")),
            "dot_product_attention: bias must be broadcastable to [2, 6, 5, 7], got f32[3,5,7]",
        ),
        (
            lambda: lib.dot_product_attention(*arrays(Q, KV, KV, "f32[7]", "f32[7]")),
            "dot_product_attention: mask must be of type pred, got f32[7]",
        ),
        (
            lambda: lib.dot_product_attention(*arrays(Q, KV, KV), scale=float("inf")),
            "dot_product_attention: scale must be a finite number, got inf",
        ),
        (
            lambda: lib.dot_product_attention(*arrays("f32[2,4,?,8]", KV, KV)),
            "dot_product_attention: dimension 2 of query must have a fixed size, got f32[2,4,?,8]",
        ),
        (
            lambda: lib.dot_product_attention(*arrays("f32[5,8]", KV, KV)),
            "dot_product_attention: query must be an array [..., positions, heads, features]",
        ),
        (
            lambda: lib.rotary_embedding(*arrays("f32[5,6,7]", "s32[5]")),
            "rotary_embedding: x must have an even number of features, got f32[5,6,7]",
        ),
        (
            lambda: lib.rotary_embedding(*arrays(Q, "s32[2]")),
            "rotary_embedding: positions must be integers [5] or [2, 5], got s32[2]",
        ),
        (
            lambda: lib.rotary_embedding(*arrays(Q, "s32[5]"), base=0),
            "rotary_embedding: base must be a positive number, got 0",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        call()
    assert str(caught.value).startswith(message)
