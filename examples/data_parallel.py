"""Train the classifier of digits.py on four devices, each with a part of every minibatch.

Each replica computes the gradients of its images, `all_reduce` adds them over all replicas, and
each replica updates its copy of the parameters by the same step. The results are those of one
device, up to rounding. The state of an epoch consists of arrays with a row for each device, which
stay on the devices for the next epoch.

    python examples/data_parallel.py [--replicas N] [--epochs N]

`--replicas` selects another number of devices. On a CPU, jax is configured to provide them. GPUs
and TPUs need no configuration.
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
    """Return the computation that trains on a replica's rows of all minibatches.

    (images, labels, state) -> (mean loss, new state); both results are equal on all replicas.
    """
    rows = digits.BATCH // replicas

    @xb.computation(
        xb.f32[digits.BATCHES, rows, digits.PIXELS],
        xb.f32[digits.BATCHES, rows, digits.CLASSES],
        digits.STATE,
    )
    def epoch(images: xb.XlaOp, labels: xb.XlaOp, state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        def step(loop: xb.XlaOp) -> Any:
            number, total, (parameters, velocities) = loop
            x, y = images[number], labels[number]
            # The gradients are divided by the size of the full minibatch, so the sum is their mean.
            loss, gradients = digits.loss_and_gradients(x, y, list(parameters))
            gradients = [xb.all_reduce(g, xb.add) for g in gradients]
            return number + 1, total + loss, digits.update(parameters, velocities, gradients)

        _, total, state = xb.while_(lambda loop: loop[0] < digits.BATCHES, step, (0, 0.0, state))
        return xb.all_reduce(total, xb.add) / digits.BATCHES, state

    return epoch


def split(minibatches: np.ndarray, replicas: int, columns: int) -> np.ndarray:
    """Split the minibatches of `digits.load_digits` into a part for each replica."""
    parts = minibatches.reshape(digits.BATCHES, replicas, digits.BATCH // replicas, columns)
    return np.ascontiguousarray(parts.swapaxes(0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicas", type=int, default=4, help="1, 2, 4, 8, 16 or 32")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    if options.replicas < 1 or digits.BATCH % options.replicas:
        parser.error(f"--replicas must divide {digits.BATCH}, the number of images in a minibatch")
    if options.epochs < 1:
        parser.error("--epochs must be 1 or more")
    jax.config.update("jax_num_cpu_devices", options.replicas)  # before jax initializes its devices

    train = lowering.compile(
        train_epoch(options.replicas), num_replicas=options.replicas, results="sharded"
    )
    images, labels, test_images, test_classes = digits.load_digits()
    x = jax.device_put(split(images, options.replicas, digits.PIXELS), train.sharding)
    y = jax.device_put(split(labels, options.replicas, digits.CLASSES), train.sharding)
    state: Any = digits.first_state(seed=0)
    for number in range(options.epochs):
        loss, state = train(x, y, state)
        print(f"epoch {number}: loss {float(loss[0]):.5f}")

    # Every replica has the same parameters; use those of the first.
    parameters = tuple(p.addressable_shards[0].data[0] for p in state[0])
    classes = lowering.compile(digits.classify)(test_images, parameters)
    accuracy = (np.asarray(classes) == test_classes).mean()
    print(f"test accuracy: {accuracy:.1%} of {len(test_classes)} test images")


if __name__ == "__main__":
    main()
