"""Trains the classifier of digits.py on several devices, each with its part of every minibatch.

Each device, a replica, computes the gradients of its own images, `all_reduce` adds them up over all
replicas, and each moves its own copy of the parameters by the same step. So the numbers are those
of one device, up to rounding. The state goes from one epoch to the next as arrays with a row for
each device, which stay where they are.

    python examples/data_parallel.py [--replicas N] [--epochs N]

A CPU counts as several devices if it is told so, as here; on GPUs and TPUs nothing is to be told.
"""

from __future__ import annotations

import argparse
from typing import Any

import digits
import jax
import numpy as np

import builder as xb
import lowering


def train_epoch(replicas: int) -> xb.XlaComputation:
    """One pass over all minibatches on one of the replicas, with its rows of each of them.

    (images, labels, state) -> (mean loss, new state), both the same on all replicas.
    """
    rows = digits.BATCH // replicas

    @xb.computation(
        xb.f32[digits.BATCHES, rows, digits.PIXELS],
        xb.f32[digits.BATCHES, rows, digits.CLASSES],
        digits.STATE,
    )
    def epoch(images: xb.XlaOp, labels: xb.XlaOp, state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        b = images.builder

        def batch_left(loop: xb.XlaOp) -> xb.XlaOp:
            return loop[0] < digits.BATCHES

        def chosen(all_of_them: xb.XlaOp, number: xb.XlaOp) -> xb.XlaOp:
            _, *sizes = all_of_them.shape.dimensions
            return xb.reshape(xb.dynamic_slice(all_of_them, [number, 0, 0], [1, *sizes]), sizes)

        def step(loop: xb.XlaOp) -> Any:
            number, total, (parameters, velocities) = loop
            x, y = chosen(images, number), chosen(labels, number)
            # Divided by the size of the whole minibatch: what is left is to add them up.
            loss, gradients = digits.loss_and_gradients(x, y, list(parameters))
            gradients = [xb.all_reduce(g, xb.add) for g in gradients]
            pulled = [v * digits.MOMENTUM + g for v, g in zip(velocities, gradients, strict=True)]
            moved = [p - v * digits.LEARNING_RATE for p, v in zip(parameters, pulled, strict=True)]
            return number + 1, total + loss, (moved, pulled)

        start = (b.constant(0, xb.s32), b.constant(0.0, xb.f32), state)
        _, total, state = xb.while_(batch_left, step, start)
        return xb.all_reduce(total, xb.add) / digits.BATCHES, state

    return epoch


def in_parts(minibatches: np.ndarray, replicas: int, columns: int) -> np.ndarray:
    """Minibatches as `digits.load_digits` gives them, a part of each for every replica."""
    parts = minibatches.reshape(digits.BATCHES, replicas, digits.BATCH // replicas, columns)
    return np.ascontiguousarray(parts.swapaxes(0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicas", type=int, default=8, help="1, 2, 4, 8, 16 or 32")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    if options.replicas < 1 or digits.BATCH % options.replicas:
        parser.error(f"--replicas must divide the {digits.BATCH} images of a minibatch")
    if options.epochs < 1:
        parser.error("--epochs must be 1 or more")
    jax.config.update("jax_num_cpu_devices", options.replicas)  # before jax is first used

    train = lowering.compile(
        train_epoch(options.replicas), num_replicas=options.replicas, results="sharded"
    )
    images, labels, test_images, test_classes = digits.load_digits()
    x = jax.device_put(in_parts(images, options.replicas, digits.PIXELS), train.sharding)
    y = jax.device_put(in_parts(labels, options.replicas, digits.CLASSES), train.sharding)
    state: Any = digits.first_state(seed=0)
    for number in range(options.epochs):
        loss, state = train(x, y, state)
        print(f"epoch {number}: loss {float(loss[0]):.5f}")

    # Every replica has the same parameters; those of the first are asked.
    parameters = tuple(p.addressable_shards[0].data[0] for p in state[0])
    classes = lowering.compile(digits.classify)(test_images, parameters)
    accuracy = (np.asarray(classes) == test_classes).mean()
    print(f"test accuracy: {accuracy:.1%} of {len(test_classes)} images never trained on")


if __name__ == "__main__":
    main()
