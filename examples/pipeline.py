"""A pipeline: the layers of a network on devices of their own, and microbatches running through.

Device k has layer k alone. At every tick each device computes its layer on what it has, and
`collective_permute` hands the result to the next one, while the first takes in the next microbatch.
After as many ticks as there are microbatches and further devices, the last has all results.

    python examples/pipeline.py [--stages N] [--microbatches N]
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import numpy as np

import builder as xb
import lowering

ROWS, WIDTH = 4, 16


def pipeline(stages: int, microbatches: int) -> xb.XlaComputation:
    """What one stage does: (its weights, the microbatches) -> what comes out, on the last stage."""
    onwards = [(k, k + 1) for k in range(stages - 1)]

    @xb.computation(xb.f32[WIDTH, WIDTH], xb.f32[microbatches, ROWS, WIDTH])
    def stage(weights: xb.XlaOp, inputs: xb.XlaOp) -> xb.XlaOp:
        b = weights.builder
        is_first = b.replica_id() == 0

        def tick_left(loop: xb.XlaOp) -> xb.XlaOp:
            return loop[0] < microbatches + stages - 1

        def tick(loop: xb.XlaOp) -> Any:
            number, arrived, outputs = loop
            # Indices out of range are clamped. What is written of the first ticks, before anything
            # has reached the last stage, is overwritten by its first result.
            fresh = xb.dynamic_slice(inputs, [number, 0, 0], [1, ROWS, WIDTH])
            taken = xb.select(is_first, xb.reshape(fresh, [ROWS, WIDTH]), arrived)
            computed = xb.tanh(xb.dot(taken, weights))
            row = xb.reshape(computed, [1, ROWS, WIDTH])
            outputs = xb.dynamic_update_slice(outputs, row, [number - (stages - 1), 0, 0])
            return number + 1, xb.collective_permute(computed, onwards), outputs

        zero = b.constant(0.0, xb.f32)
        nothing, unwritten = (
            xb.broadcast(zero, sizes) for sizes in ([ROWS, WIDTH], inputs.shape.dimensions)
        )
        return xb.while_(tick_left, tick, (b.constant(0, xb.s32), nothing, unwritten))[2]

    return stage


def expected(weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """The same by NumPy: all layers on all microbatches, one after the other."""
    for layer in weights:
        inputs = np.tanh(inputs @ layer)
    return inputs


def run(stages: int, microbatches: int) -> tuple[np.ndarray, np.ndarray]:
    """What comes out of the pipeline, and what NumPy says."""
    random = np.random.default_rng(0)
    weights = random.normal(size=(stages, WIDTH, WIDTH)).astype(np.float32) / np.float32(4)
    inputs = random.normal(size=(microbatches, ROWS, WIDTH)).astype(np.float32)
    through = lowering.compile(pipeline(stages, microbatches), num_replicas=stages)
    # The weights go row by row to the stages; the microbatches are the same for all.
    results = through(weights, inputs)
    return np.asarray(results[-1]), expected(weights, inputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stages", type=int, default=8)
    parser.add_argument("--microbatches", type=int, default=12)
    options = parser.parse_args()
    if options.stages < 2:
        parser.error("--stages must be 2 or more: one alone is no pipeline")
    if options.microbatches < 1:
        parser.error("--microbatches must be 1 or more")
    jax.config.update("jax_num_cpu_devices", options.stages)  # before jax is first used
    found, wanted = run(options.stages, options.microbatches)
    ticks = options.microbatches + options.stages - 1
    print(f"{options.microbatches} microbatches through {options.stages} stages in {ticks} ticks")
    print(f"largest difference from NumPy: {np.abs(found - wanted).max():.1e}")


if __name__ == "__main__":
    main()
