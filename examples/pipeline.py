"""Pipeline parallelism: each device computes a layer of a network, one microbatch after another.

Device k has the weights of layer k. In every tick each device applies its layer to its input, and
`collective_permute` sends the result to the next device. The first device reads the next
microbatch. After `microbatches + stages - 1` ticks the last device has all results.

    python examples/pipeline.py [--stages N] [--microbatches N]
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import numpy as np

import builder as xb
import lowering
from builder import lib

ROWS, WIDTH = 4, 16


def pipeline(stages: int, microbatches: int) -> xb.XlaComputation:
    """Return the computation of a stage: (weights, microbatches) -> results, on the last stage."""
    next_stage = [(k, k + 1) for k in range(stages - 1)]

    @xb.computation(xb.f32[WIDTH, WIDTH], xb.f32[microbatches, ROWS, WIDTH])
    def stage(weights: xb.XlaOp, inputs: xb.XlaOp) -> xb.XlaOp:
        b = weights.builder
        is_first = b.replica_id() == 0

        def condition(loop: xb.XlaOp) -> xb.XlaOp:
            return loop[0] < microbatches + stages - 1

        def tick(loop: xb.XlaOp) -> Any:
            number, received, outputs = loop
            # Indices out of range are clamped. The first result of the last stage overwrites the
            # outputs of the ticks before it.
            layer_input = xb.select(is_first, inputs[number], received)
            computed = xb.tanh(xb.dot(layer_input, weights))
            outputs = outputs.at[number - (stages - 1)].set(computed)
            return number + 1, xb.collective_permute(computed, next_stage), outputs

        start = (0, lib.zeros(b, xb.f32[ROWS, WIDTH]), lib.zeros_like(inputs))
        return xb.while_(condition, tick, start)[2]

    return stage


def expected(weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Apply the layers to all microbatches with NumPy."""
    for layer in weights:
        inputs = np.tanh(inputs @ layer)
    return inputs


def run(stages: int, microbatches: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the results of the pipeline and those of NumPy."""
    random = np.random.default_rng(0)
    weights = random.normal(size=(stages, WIDTH, WIDTH)).astype(np.float32) / np.float32(4)
    inputs = random.normal(size=(microbatches, ROWS, WIDTH)).astype(np.float32)
    run_stages = lowering.compile(pipeline(stages, microbatches), num_replicas=stages)
    # Each stage gets a row of the weights, and all microbatches.
    results = run_stages(weights, inputs)
    return np.asarray(results[-1]), expected(weights, inputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stages", type=int, default=8)
    parser.add_argument("--microbatches", type=int, default=12)
    options = parser.parse_args()
    if options.stages < 2:
        parser.error("--stages must be 2 or more")
    if options.microbatches < 1:
        parser.error("--microbatches must be 1 or more")
    jax.config.update("jax_num_cpu_devices", options.stages)  # before jax initializes its devices
    results, reference = run(options.stages, options.microbatches)
    ticks = options.microbatches + options.stages - 1
    print(f"{options.microbatches} microbatches through {options.stages} stages in {ticks} ticks")
    print(f"largest difference from NumPy: {np.abs(results - reference).max():.1e}")


if __name__ == "__main__":
    main()
