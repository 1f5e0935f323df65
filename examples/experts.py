"""Experts: each device has one, and sends every token of its own to the device of its expert.

A router chooses an expert for each token. Each device puts its tokens into one box for each expert,
`all_to_all` exchanges the boxes, each device applies its expert to all that it has got, a second
`all_to_all` brings the results back, and they are put where the tokens were.

    python examples/experts.py [--devices N]
"""

from __future__ import annotations

import argparse

import jax
import numpy as np

import builder as xb
import lowering

TOKENS, WIDTH = 8, 16


def mixture(experts: int) -> xb.XlaComputation:
    """One device's part: (tokens, the router, its expert's weights) -> a result for each token.

    A box has room for all tokens of a device, so that none is ever left out.
    """

    @xb.computation(xb.f32[TOKENS, WIDTH], xb.f32[WIDTH, experts], xb.f32[WIDTH, WIDTH])
    def layer(tokens: xb.XlaOp, router: xb.XlaOp, expert: xb.XlaOp) -> xb.XlaOp:
        b = tokens.builder
        # chosen[t, e] is 1 where expert e is that of token t, and 0 elsewhere.
        scores = xb.dot(tokens, router)
        best = xb.reduce(scores, float("-inf"), xb.max, dimensions=[1])
        chosen = xb.convert(xb.eq(scores, best, broadcast_dimensions=[0]), xb.f32)
        # Its place in the box: how many of the tokens before go there too.
        square = xb.s32[TOKENS, TOKENS]
        before = xb.convert(b.iota(square, 1) < b.iota(square, 0), xb.f32)
        places = xb.reduce(xb.dot(before, chosen) * chosen, 0.0, xb.add, dimensions=[1])
        numbers = xb.convert(b.iota(square, 1), xb.f32)
        at = xb.convert(xb.eq(numbers, places, broadcast_dimensions=[0]), xb.f32)
        # packing[t, e, p] is 1 where token t goes to place p of box e.
        whole = [TOKENS, experts, TOKENS]
        packing = xb.reshape(
            xb.broadcast_in_dim(chosen, whole, [0, 1]) * xb.broadcast_in_dim(at, whole, [0, 2]),
            [TOKENS, experts * TOKENS],
        )
        boxes = xb.dot(xb.transpose(packing, [1, 0]), tokens)
        received = xb.all_to_all(boxes, 0, 0, experts)
        answered = xb.tanh(xb.dot(received, expert))
        returned = xb.all_to_all(answered, 0, 0, experts)
        return xb.dot(packing, returned)

    return layer


def expected(tokens: np.ndarray, router: np.ndarray, experts: np.ndarray) -> np.ndarray:
    """The same by NumPy, token by token."""
    results = np.empty_like(tokens)
    for place in np.ndindex(tokens.shape[:2]):
        expert = experts[np.argmax(tokens[place] @ router)]
        results[place] = np.tanh(tokens[place] @ expert)
    return results


def run(devices: int) -> tuple[np.ndarray, np.ndarray]:
    """What the devices give for their tokens, and what NumPy says."""
    random = np.random.default_rng(1)
    tokens = random.normal(size=(devices, TOKENS, WIDTH)).astype(np.float32)
    router = random.normal(size=(WIDTH, devices)).astype(np.float32)
    experts = random.normal(size=(devices, WIDTH, WIDTH)).astype(np.float32) / np.float32(4)
    layer = lowering.compile(mixture(devices), num_replicas=devices, results="sharded")
    # Tokens and experts row by row, the router for all.
    return np.asarray(layer(tokens, router, experts)), expected(tokens, router, experts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=int, default=8)
    options = parser.parse_args()
    if options.devices < 1:
        parser.error("--devices must be 1 or more")
    jax.config.update("jax_num_cpu_devices", options.devices)  # before jax is first used
    found, wanted = run(options.devices)
    print(f"{wanted.shape[0] * wanted.shape[1]} tokens to {options.devices} experts and back")
    print(f"largest difference from NumPy: {np.abs(found - wanted).max():.1e}")


if __name__ == "__main__":
    main()
