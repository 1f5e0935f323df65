"""Train a GRU to recognize handwritten digits from their rows, read one after another.

The GRU is a scan over the rows. Its derivative, which runs the scan backwards, is recorded by
`lowering.gradients`.

    python examples/gru.py [--epochs N]
"""

from __future__ import annotations

import argparse
from typing import Any

import convnet
import digits
import numpy as np

import builder as xb
import lowering
from builder import lib

WIDTH = 48


def gru(inputs: xb.XlaOp, weights: xb.XlaOp, bias: xb.XlaOp, recurrent: xb.XlaOp) -> xb.XlaOp:
    """Return the states f32[time, batch, width] for inputs f32[time, batch, features]."""

    def step(x: xb.XlaOp, state: xb.XlaOp) -> Any:
        reset_in, update_in, new_in = lib.split(lib.linear(x, weights, bias), 3, -1)
        reset, update, new = lib.split(lib.linear(state, recurrent), 3, -1)
        reset, update = lib.sigmoid(reset_in + reset), lib.sigmoid(update_in + update)
        new = xb.tanh(new_in + reset * new)
        state = update * state + (1.0 - update) * new
        return state, state

    sizes = inputs.shape.dimensions[1], recurrent.shape.dimensions[0]
    return xb.scan(inputs, np.zeros(sizes, np.float32), step, 0)[0]


def logits(images: xb.XlaOp, parameters: Any) -> xb.XlaOp:
    """Return f32[N, classes] for images f32[N, 8, 8]: a linear function of the last states."""
    layer, last = parameters
    return lib.linear(gru(xb.transpose(images, [1, 0, 2]), *layer)[-1], *last)


@lowering.jit(donate=["parameters", "optimizer"])
def train(images: xb.XlaOp, labels: xb.XlaOp, parameters: Any, optimizer: Any) -> Any:
    """Return the loss of a minibatch, and the new state of the optimizer and parameters."""
    loss = lib.mean(lib.cross_entropy(logits(images, parameters), labels))
    gradients = lowering.gradients(loss, parameters)
    return loss, *convnet.adam(gradients, optimizer, parameters)


@lowering.jit
def classify(images: xb.XlaOp, parameters: Any) -> xb.XlaOp:
    """Return the class of each image."""
    return lib.arg_max(logits(images, parameters), xb.s32, -1)


def random_weights(seed: int) -> list[list[np.ndarray]]:
    """Return weights, bias and recurrent weights of the GRU; weights and bias of the last layer."""
    random = np.random.default_rng(seed)

    def normal(*sizes: int) -> np.ndarray:
        return random.normal(0, 1 / np.sqrt(sizes[0]), sizes).astype(np.float32)

    zeros, classes = np.zeros(3 * WIDTH, np.float32), np.zeros(digits.CLASSES, np.float32)
    layer = [normal(8, 3 * WIDTH), zeros, normal(WIDTH, 3 * WIDTH)]
    return [layer, [normal(WIDTH, digits.CLASSES), classes]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    images, labels, test_images, test_classes = digits.load_digits()
    minibatches = images.reshape(-1, digits.BATCH, 8, 8)
    parameters: Any = random_weights(seed=0)
    optimizer = convnet.first_optimizer(parameters)
    for number in range(parser.parse_args().epochs):
        for x, y in zip(minibatches, labels.reshape(*minibatches.shape[:2], -1), strict=True):
            loss, optimizer, parameters = train(x, y, parameters, optimizer)
        print(f"epoch {number}: loss of the last minibatch {float(loss):.3f}")
    classes = classify(test_images.reshape(-1, 8, 8), parameters)
    accuracy = (np.asarray(classes) == test_classes).mean()
    print(f"test accuracy: {accuracy:.1%} of {len(test_classes)} test images")


if __name__ == "__main__":
    main()
