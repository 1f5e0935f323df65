"""Train a convolutional network with batch normalization on handwritten digits, with Adam.

A program is one step: it normalizes with the statistics of the minibatch, updates the parameters,
and averages the statistics over the steps. Another program classifies with these averages. The
arguments and results of both are nested tuples and lists of arrays.

    python examples/convnet.py [--epochs N]
"""

from __future__ import annotations

import argparse
from typing import Any

import digits
import jax
import numpy as np

import builder as xb
import lowering
from builder import lib

CHANNELS = (1, 16, 32)


def logits(images: xb.XlaOp, parameters: Any, averages: Any = None) -> tuple[xb.XlaOp, Any]:
    """Return f32[N, classes] for images f32[N, 8, 8, 1], and the statistics of each layer.

    Args:
        images: the pixels.
        parameters: kernel, scale and offset of each layer; weights and bias of the last one.
        averages: mean and variance for each layer; by default those of the images.
    """
    layers, last = parameters
    x, statistics = images, []
    for number, (kernel, scale, offset) in enumerate(layers):
        x = lib.conv(x, kernel)
        if averages is None:
            x, *found = xb.batch_norm_training(x, scale, offset, 1e-5, 3)
            statistics.append(found)
        else:
            x = xb.batch_norm_inference(x, scale, offset, *averages[number], 1e-5, 3)
        x = lib.max_pool(lib.relu(x), [2, 2], [2, 2], "VALID", "NHWC")
    return lib.linear(xb.collapse(x, [1, 2, 3]), *last), statistics


def adam(gradients: Any, optimizer: Any, parameters: Any, rate: float = 0.003) -> Any:
    """Return the state of the optimizer and the parameters after a step of Adam.

    The state consists of the number of steps, and the first and second moments of each gradient.
    """
    count, first, second = optimizer
    count = count + 1.0
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    scale = rate * xb.sqrt(1.0 - 0.999**count) / (1.0 - 0.9**count)

    def updated(p: xb.XlaOp, m: xb.XlaOp, v: xb.XlaOp) -> xb.XlaOp:
        return p - scale * m / (xb.sqrt(v) + 1e-8)

    return (count, first, second), jax.tree.map(updated, parameters, first, second)


@lowering.jit(donate=["state"])
def train(images: xb.XlaOp, labels: xb.XlaOp, state: Any) -> Any:
    """Return the loss of a minibatch, and the new state: parameters, averages and optimizer."""
    parameters, averages, optimizer = state
    scores, statistics = logits(images, parameters)
    loss = lib.mean(lib.cross_entropy(scores, labels))
    gradients = lowering.gradients(loss, parameters)
    optimizer, parameters = adam(gradients, optimizer, parameters)
    averages = jax.tree.map(lambda a, s: 0.9 * a + 0.1 * s, averages, statistics)
    return loss, (parameters, averages, optimizer)


@lowering.jit
def classify(images: xb.XlaOp, parameters: Any, averages: Any) -> xb.XlaOp:
    """Return the class of each image."""
    return lib.arg_max(logits(images, parameters, averages)[0], xb.s32, -1)


def first_optimizer(parameters: Any) -> Any:
    """Return the first state of `adam`: no steps, and moments of 0."""
    return np.float32(0), *(jax.tree.map(np.zeros_like, parameters) for _ in range(2))


def first_state(seed: int) -> Any:
    """Return random parameters, standard statistics, and the first state of `adam`."""
    random = np.random.default_rng(seed)

    def normal(*sizes: int) -> np.ndarray:
        return random.normal(0, np.sqrt(2 / np.prod(sizes[:-1])), sizes).astype(np.float32)

    ones = [np.ones(c, np.float32) for c in CHANNELS]
    pairs = zip(CHANNELS[:-1], CHANNELS[1:], ones[1:], strict=True)
    layers = [[normal(3, 3, c, d), one, 0 * one] for c, d, one in pairs]
    last = [normal(4 * CHANNELS[-1], digits.CLASSES), np.zeros(digits.CLASSES, np.float32)]
    averages = [[0 * one, one] for one in ones[1:]]
    return (layers, last), averages, first_optimizer((layers, last))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2)
    images, labels, test_images, test_classes = digits.load_digits()
    minibatches = images.reshape(-1, digits.BATCH, 8, 8, 1)
    state = first_state(seed=0)
    for number in range(parser.parse_args().epochs):
        for x, y in zip(minibatches, labels.reshape(*minibatches.shape[:2], -1), strict=True):
            loss, state = train(x, y, state)
        print(f"epoch {number}: loss of the last minibatch {float(loss):.3f}")
    classes = classify(test_images.reshape(-1, 8, 8, 1), *state[:2])
    accuracy = (np.asarray(classes) == test_classes).mean()
    print(f"test accuracy: {accuracy:.1%} of {len(test_classes)} test images")


if __name__ == "__main__":
    main()
