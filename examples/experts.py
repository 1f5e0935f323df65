"""A mixture of experts with an expert on each device, to which the tokens are sent.

A router selects an expert for each token. Each device packs its tokens into a buffer for each
expert, and `all_to_all` exchanges the buffers. Each device applies its expert to the tokens that it
received. A second `all_to_all` returns the results, which are unpacked to the tokens' positions.

    python examples/experts.py [--devices N]
"""

from __future__ import annotations

import argparse

import jax
import numpy as np

import builder as xb
import lowering
from builder import lib

TOKENS, WIDTH = 8, 16


def mixture(experts: int) -> xb.XlaComputation:
    """Return the computation of a device: (tokens, router, expert's weights) -> results.

    A buffer has the size of all tokens of a device, so that no token is dropped.
    """

    @xb.computation(xb.f32[TOKENS, WIDTH], xb.f32[WIDTH, experts], xb.f32[WIDTH, WIDTH])
    def layer(tokens: xb.XlaOp, router: xb.XlaOp, expert: xb.XlaOp) -> xb.XlaOp:
        b = tokens.builder
        # chosen[t, e] is 1 if the router selects expert e for token t, else 0.
        chosen = lib.one_hot(lib.arg_max(tokens @ router, xb.s32, -1), experts, xb.f32)
        # The position in the buffer is the number of earlier tokens for the same expert.
        before = lib.tri(b, TOKENS, k=-1)
        positions = xb.convert(lib.sum((before @ chosen) * chosen, -1), xb.s32)
        is_at = lib.one_hot(positions, TOKENS, xb.f32)
        # packing[t, e, p] is 1 if token t is at position p of buffer e, else 0.
        sizes = [TOKENS, experts, TOKENS]
        packing = xb.reshape(
            xb.broadcast_in_dim(chosen, sizes, [0, 1]) * xb.broadcast_in_dim(is_at, sizes, [0, 2]),
            [TOKENS, experts * TOKENS],
        )
        buffers = xb.dot(xb.transpose(packing, [1, 0]), tokens)
        received = xb.all_to_all(buffers, 0, 0, experts)
        results = xb.all_to_all(xb.tanh(xb.dot(received, expert)), 0, 0, experts)
        return xb.dot(packing, results)

    return layer


def expected(tokens: np.ndarray, router: np.ndarray, experts: np.ndarray) -> np.ndarray:
    """Compute the results with NumPy, token by token."""
    results = np.empty_like(tokens)
    for index in np.ndindex(tokens.shape[:2]):
        expert = experts[np.argmax(tokens[index] @ router)]
        results[index] = np.tanh(tokens[index] @ expert)
    return results


def run(devices: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the results of the devices and those of NumPy."""
    random = np.random.default_rng(1)
    tokens = random.normal(size=(devices, TOKENS, WIDTH)).astype(np.float32)
    router = random.normal(size=(WIDTH, devices)).astype(np.float32)
    experts = random.normal(size=(devices, WIDTH, WIDTH)).astype(np.float32) / np.float32(4)
    layer = lowering.compile(mixture(devices), num_replicas=devices, results="sharded")
    # Each device gets a row of the tokens and of the experts, and the entire router.
    return np.asarray(layer(tokens, router, experts)), expected(tokens, router, experts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=int, default=8)
    options = parser.parse_args()
    if options.devices < 1:
        parser.error("--devices must be 1 or more")
    jax.config.update("jax_num_cpu_devices", options.devices)  # before jax initializes its devices
    results, reference = run(options.devices)
    print(f"{options.devices * TOKENS} tokens sent to {options.devices} experts")
    print(f"largest difference from NumPy: {np.abs(results - reference).max():.1e}")


if __name__ == "__main__":
    main()
