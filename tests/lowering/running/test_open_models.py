"""Whole models of any batch and length: recorded once, trained, saved, and served by threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import builder as xb
import lowering
from builder import lib

WIDTH, HEADS, WORDS = 16, 2, 20
RANDOM = np.random.default_rng(3)


def normal(*sizes: int) -> Any:
    return RANDOM.normal(0, 0.2, sizes).astype(np.float32)


def block_weights() -> Any:
    return {
        "qkv": normal(WIDTH, 3 * WIDTH),
        "out": normal(WIDTH, WIDTH),
        "up": normal(WIDTH, 2 * WIDTH),
        "down": normal(2 * WIDTH, WIDTH),
    }


def block(p: Any, x: xb.XlaOp, *, is_causal: bool) -> xb.XlaOp:
    """A transformer's block on an array [batch, length, WIDTH]."""
    *sizes, _ = x.shape.dimensions
    parts = lib.split(lib.layer_norm(x) @ p["qkv"], 3, axis=2)
    heads = [xb.reshape(part, [*sizes, HEADS, WIDTH // HEADS]) for part in parts]
    attention = lib.dot_product_attention(*heads, is_causal=is_causal)
    x = x + xb.reshape(attention, [*sizes, WIDTH]) @ p["out"]
    return x + lib.gelu(lib.layer_norm(x) @ p["up"]) @ p["down"]


def gpt(p: Any, tokens: xb.XlaOp) -> xb.XlaOp:
    x = lib.take(p["embed"], tokens, 0) + lib.take(p["at"], lib.indices_along(tokens, 1), 0)
    return lib.layer_norm(block(p["block"], x, is_causal=True)) @ xb.transpose(p["embed"], [1, 0])


def jax_block(p: Any, x: Any, *, is_causal: bool) -> Any:
    parts = jnp.split(normalized(x) @ p["qkv"], 3, 2)
    heads = [part.reshape(*part.shape[:2], HEADS, WIDTH // HEADS) for part in parts]
    attention = jax.nn.dot_product_attention(*heads, is_causal=is_causal)
    x = x + attention.reshape(x.shape) @ p["out"]
    return x + jax.nn.gelu(normalized(x) @ p["up"]) @ p["down"]


def normalized(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def jax_gpt(p: Any, tokens: Any) -> Any:
    x = p["embed"][tokens] + p["at"][jnp.arange(tokens.shape[1])]
    return normalized(jax_block(p["block"], x, is_causal=True)) @ p["embed"].T


def jax_loss(p: Any, tokens: Any, labels: Any) -> Any:
    logits = jax.nn.log_softmax(jax_gpt(p, tokens))
    return -jnp.mean(jnp.take_along_axis(logits, labels[..., None], -1))


@pytest.mark.slow
def test_a_gpt_of_any_batch_and_length(tmp_path: Path) -> None:
    weights = {"embed": normal(WORDS, WIDTH), "at": normal(12, WIDTH), "block": block_weights()}

    @lowering.jit(open_sizes={"tokens": [0, 1], "labels": [0, 1]}, device="cpu")
    def step(p: Any, tokens: Any, labels: Any) -> Any:
        loss = lib.mean(lib.cross_entropy(gpt(p, tokens), labels))
        gradients = lowering.gradients(loss, p)
        return loss, jax.tree.map(lambda w, g: w - 0.1 * g, p, gradients)

    sizes = [(1, 1), (3, 7)]
    for size in sizes:
        tokens, labels = RANDOM.integers(0, WORDS, (2, *size)).astype(np.int32)
        loss, updated = step(weights, tokens, labels)
        want, slopes = jax.jit(jax.value_and_grad(jax_loss))(weights, tokens, labels)
        np.testing.assert_allclose(loss, want, rtol=1e-5)
        for new, old, slope in zip(*map(jax.tree.leaves, (updated, weights, slopes)), strict=True):
            np.testing.assert_allclose(new, old - 0.1 * slope, atol=1e-6)
    assert step.cache_info().recorded == 1

    # Exported, and served at six sizes by eight threads.
    forward = lowering.jit(gpt, open_sizes={"tokens": [0, 1]})
    path = tmp_path / "gpt.mlir"
    lowering.lower(forward.computation(weights, xb.s32["?", "?"])).save(path)
    run = lowering.compile(lowering.load(path), "cpu")
    served = [
        RANDOM.integers(0, WORDS, (1 + n % 2, 1 + 2 * (n % 6))).astype(np.int32) for n in range(40)
    ]
    want_of = jax.jit(jax_gpt)
    with ThreadPoolExecutor(8) as threads:
        for tokens, got in zip(served, threads.map(lambda t: run(weights, t), served), strict=True):
            np.testing.assert_allclose(got, want_of(weights, tokens), atol=1e-5)
    assert len(run.compiled_for()) == len({tokens.shape for tokens in served}) == 6


@pytest.mark.slow
@pytest.mark.jaxlib
def test_a_vision_transformer_of_any_batch() -> None:
    weights = {"patch": normal(4, 4, 3, WIDTH), "block": block_weights(), "head": normal(WIDTH, 5)}

    def vit(p: Any, images: xb.XlaOp) -> xb.XlaOp:
        patches = lib.conv(images, p["patch"], (4, 4), "VALID")
        x = block(p["block"], xb.collapse(patches, [1, 2]), is_causal=False)
        return lib.mean(x, 1) @ p["head"]

    def jax_vit(p: Any, images: Any) -> Any:
        patches = jax.lax.conv_general_dilated(
            images, p["patch"], (4, 4), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = patches.reshape(len(images), -1, WIDTH)
        return jax_block(p["block"], x, is_causal=False).mean(1) @ p["head"]

    @lowering.jit(open_sizes={"images": 0}, device="cpu")
    def gradients(p: Any, images: Any) -> Any:
        return lowering.gradients(lib.sum(xb.tanh(vit(p, images))), p)

    slopes = jax.jit(jax.grad(lambda p, x: jnp.sum(jnp.tanh(jax_vit(p, x)))))
    for count in (1, 3):
        images = RANDOM.normal(size=(count, 8, 8, 3)).astype(np.float32)
        want = slopes(weights, images)
        for got, expected in zip(
            *map(jax.tree.leaves, (gradients(weights, images), want)), strict=True
        ):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
