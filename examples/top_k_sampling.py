"""Sample tokens from the most probable ones, as language models do: top-k and nucleus sampling.

Top-k sampling leaves the k most probable tokens. Nucleus sampling leaves the fewest tokens whose
probabilities add up to p at least. Both are combined here.

    python examples/top_k_sampling.py
"""

from __future__ import annotations

import numpy as np

import builder as xb
import lowering
from builder import lib


@lowering.jit(static=["k"])
def sample(
    logits: xb.XlaOp, uniform: xb.XlaOp, temperature: xb.XlaOp, p: xb.XlaOp, k: int
) -> xb.XlaOp:
    """Return a token for each row of logits f32[batch, tokens].

    Args:
        logits: logarithms of probabilities, up to a constant.
        uniform: random numbers f32[batch, k] between 0 and 1.
        temperature: divides the logits; low temperatures prefer probable tokens.
        p: the probability of the nucleus, of the k tokens.
        k: the number of tokens to sample from.
    """
    values, tokens = xb.top_k(logits / temperature, k)
    before = lib.cumsum(lib.softmax(values), -1, exclusive=True)
    gumbel = xb.select(before < p, -xb.log(-xb.log(uniform)), float("-inf"))
    choice = lib.arg_max(values + gumbel, xb.s32, -1, keepdims=True)
    return lib.take_along_axis(tokens, choice, -1)[:, 0]


def main() -> None:
    random = np.random.default_rng(0)
    logits = np.broadcast_to(np.log([0.5, 0.1, 0.3, 0.06, 0.04]), (10_000, 5)).astype(np.float32)
    uniform = random.uniform(1e-7, 1, (10_000, 3)).astype(np.float32)
    for p, left in ((1.0, [0.5, 0.1, 0.3, 0, 0]), (0.8, [0.5, 0, 0.3, 0, 0])):
        tokens = np.asarray(sample(logits, uniform, 1.0, p, 3))
        print(f"k = 3, p = {p}: frequencies", np.bincount(tokens, minlength=5) / len(tokens))
        print("expected:", np.round(np.array(left) / np.sum(left), 4))


if __name__ == "__main__":
    main()
