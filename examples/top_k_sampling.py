"""Sample tokens from the k most probable ones, as language models do.

python examples/top_k_sampling.py
"""

from __future__ import annotations

import numpy as np

import builder as xb
import lowering
from builder import lib


@lowering.jit(static=["k"])
def sample(logits: xb.XlaOp, uniform: xb.XlaOp, temperature: xb.XlaOp, k: int) -> xb.XlaOp:
    """Return a token for each row of logits f32[batch, tokens].

    Args:
        logits: logarithms of probabilities, up to a constant.
        uniform: random numbers f32[batch, k] between 0 and 1.
        temperature: divides the logits; low temperatures prefer probable tokens.
        k: the number of tokens to sample from.
    """
    values, tokens = xb.top_k(logits, k)
    gumbel = -xb.log(-xb.log(uniform))
    choice = lib.arg_max(values / temperature + gumbel, xb.s32, -1, keepdims=True)
    return lib.take_along_axis(tokens, choice, -1)[:, 0]


def main() -> None:
    random = np.random.default_rng(0)
    logits = np.broadcast_to(np.log([0.5, 0.1, 0.3, 0.06, 0.04]), (10_000, 5)).astype(np.float32)
    uniform = random.uniform(1e-7, 1, (10_000, 3)).astype(np.float32)
    tokens = np.asarray(sample(logits, uniform, 1.0, 3))
    print("frequencies of the five tokens:", np.bincount(tokens, minlength=5) / len(tokens))
    print("expected:", np.round(np.array([0.5, 0.1, 0.3, 0, 0]) / 0.9, 4))


if __name__ == "__main__":
    main()
