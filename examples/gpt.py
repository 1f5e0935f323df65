"""Decode greedily with a GPT, which keeps the keys and values of earlier positions in a KV cache.

One program decodes all tokens: a scan over the positions, and in it a scan over the blocks, each
with weights and a part of the cache. The blocks have rotary embeddings, and heads that share keys
and values in groups. The program is saved to a file with its weights. Another process, which does
not use the model's code, loads the file and decodes. The weights are random, so the text has no
meaning.

    python examples/gpt.py [--prompt TEXT]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import builder as xb
import lowering
from builder import lib

LENGTH, VOCABULARY = 64, 128  # tokens are ASCII characters
BLOCKS, WIDTH, HEADS, GROUPS, HEAD = 4, 64, 8, 2, 8


def block(x: xb.XlaOp, weights: Any, keys: xb.XlaOp, values: xb.XlaOp, position: xb.XlaOp) -> Any:
    """Return the features f32[1, WIDTH] after a block, and its cache with the new position."""
    norm, query, key, value, out, norm_2, up, down = weights
    normal, here = lib.rms_norm(x, norm), position[None]
    q = lib.rotary_embedding(lib.linear(normal, query), here)
    k = lib.rotary_embedding(lib.linear(normal, key), here)
    keys = keys.at[position].set(k[0])
    values = values.at[position].set(lib.linear(normal, value)[0])
    is_earlier = x.builder.iota(xb.s32[LENGTH], 0) <= position
    heads = lib.dot_product_attention(q, keys, values, mask=is_earlier)
    x = x + lib.linear(xb.reshape(heads, [1, WIDTH]), out)
    return x + lib.linear(lib.gelu(lib.linear(lib.rms_norm(x, norm_2), up)), down), keys, values


@lowering.jit
def decode(
    prompt: xb.XlaOp, embedding: xb.XlaOp, norm: xb.XlaOp, blocks: tuple[xb.XlaOp, ...]
) -> Any:
    """Continue a prompt, an s32[LENGTH] with -1 at the positions to decode."""
    cache = lib.zeros(prompt.builder, xb.f32[BLOCKS, LENGTH, GROUPS, HEAD])

    def position(
        given: xb.XlaOp, last: xb.XlaOp, at: xb.XlaOp, keys: xb.XlaOp, values: xb.XlaOp
    ) -> Any:
        token = xb.select(given < 0, last, given)
        x = embedding[token][None]

        def step(*arrays: xb.XlaOp) -> Any:
            *weights, keys, values, x = arrays
            x, keys, values = block(x, weights, keys, values, at)
            return keys, values, x

        new_keys, new_values, x = xb.scan([*blocks, keys, values], x, step, 0)
        logits = lib.linear(lib.rms_norm(x, norm), xb.transpose(embedding, [1, 0]))
        best = lib.arg_max(logits[0], xb.s32, 0)
        return token, best, at + 1, new_keys, new_values

    return xb.scan(prompt, [0, 0, cache, cache], position, 0)[0]


def random_weights(seed: int) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Return the embedding, the scale of the last norm, and the weights of all blocks."""
    random = np.random.default_rng(seed)

    def normal(*sizes: int) -> np.ndarray:
        return random.normal(0, 0.3, sizes).astype(np.float32)

    ones = np.ones((BLOCKS, WIDTH), np.float32)
    queries = normal(BLOCKS, WIDTH, HEADS, HEAD)
    keys, values = (normal(BLOCKS, WIDTH, GROUPS, HEAD) for _ in range(2))
    up, down = normal(BLOCKS, WIDTH, 4 * WIDTH), normal(BLOCKS, 4 * WIDTH, WIDTH)
    blocks = (ones, queries, keys, values, normal(BLOCKS, WIDTH, WIDTH), ones, up, down)
    return normal(VOCABULARY, WIDTH), ones[0], blocks


def export(path: Path) -> None:
    """Save the program that decodes, with the weights as constants: s32[LENGTH] -> s32[LENGTH]."""
    embedding, norm, blocks = random_weights(seed=0)
    program = decode.computation(xb.s32[LENGTH], embedding, norm, blocks)
    lowering.lower(xb.bind(program, embedding=embedding, norm=norm, blocks=blocks)).save(path)


def continued(path: Path, prompt: str) -> str:
    """Continue a prompt by the program in a file."""
    text = prompt.encode("ascii", "replace")[: LENGTH - 1]
    tokens = np.full(LENGTH, -1, np.int32)
    tokens[: len(text)] = list(text)
    return bytes(np.asarray(lowering.compile(path)(tokens), np.uint8)).decode("ascii")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--file", type=Path, help="continue the prompt by the program in this file")
    options = parser.parse_args()
    if options.file is not None:
        print(repr(continued(options.file, options.prompt)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gpt.stablehlo")
        export(path)
        print(f"exported {path.stat().st_size:,} bytes; another process decodes:", flush=True)
        command = [sys.executable, __file__, "--file", path, "--prompt", options.prompt]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
