"""Train a vision transformer on handwritten digits; its programs are recorded for any batch.

The number of images is an unbounded size (`?`), so that training on minibatches of 32 and
classification of all test images at once use one recorded model. XLA compiles it for each size.

    python examples/vision_transformer.py [--epochs N]
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

PATCH, WIDTH, HEADS, BLOCKS = 2, 32, 4, 2
PATCHES = (8 // PATCH) ** 2


def block(x: xb.XlaOp, weights: Any) -> xb.XlaOp:
    """Return the features f32[?, PATCHES, WIDTH] after a block of attention and two layers."""
    norm, query, key, value, out, norm_2, up, down = weights
    normal = lib.layer_norm(x, norm)
    q, k, v = (lib.linear(normal, projection) for projection in (query, key, value))
    heads = lib.dot_product_attention(q, k, v)
    x = x + lib.linear(xb.collapse(heads, [2, 3]), out)
    return x + lib.linear(lib.gelu(lib.linear(lib.layer_norm(x, norm_2), up)), down)


def logits(images: xb.XlaOp, parameters: Any) -> xb.XlaOp:
    """Return f32[?, classes] for images f32[?, 8, 8, 1]."""
    kernel, positions, blocks, weights = parameters
    x = xb.collapse(lib.conv(images, kernel, PATCH, "VALID"), [1, 2]) + positions[None]
    for each in blocks:
        x = block(x, each)
    return lib.linear(lib.mean(lib.layer_norm(x), 1), weights)


@lowering.jit(open_sizes={"images": 0, "labels": 0}, donate=["parameters", "optimizer"])
def train(images: xb.XlaOp, labels: xb.XlaOp, parameters: Any, optimizer: Any) -> Any:
    """Return the loss of a minibatch, and the new state of the optimizer and parameters."""
    loss = lib.mean(lib.cross_entropy(logits(images, parameters), labels))
    gradients = lowering.gradients(loss, parameters)
    return loss, *convnet.adam(gradients, optimizer, parameters)


@lowering.jit(open_sizes={"images": 0})
def classify(images: xb.XlaOp, parameters: Any) -> xb.XlaOp:
    """Return the probabilities f32[?, classes] of the classes of each image."""
    return lib.softmax(logits(images, parameters))


def random_weights(seed: int) -> list[Any]:
    """Return the kernel of the patches, their positions, the blocks, and the last weights."""
    random = np.random.default_rng(seed)

    def normal(inputs: int, *sizes: int) -> np.ndarray:
        return random.normal(0, 1 / np.sqrt(inputs), sizes).astype(np.float32)

    def weights_of_block() -> list[np.ndarray]:
        ones, head = np.ones(WIDTH, np.float32), WIDTH // HEADS
        projections = [normal(WIDTH, WIDTH, HEADS, head) for _ in range(3)]
        up, down = normal(WIDTH, WIDTH, 2 * WIDTH), normal(2 * WIDTH, 2 * WIDTH, WIDTH)
        return [ones, *projections, normal(WIDTH, WIDTH, WIDTH), ones.copy(), up, down]

    kernel, positions = normal(PATCH**2, PATCH, PATCH, 1, WIDTH), normal(1, PATCHES, WIDTH)
    blocks = [weights_of_block() for _ in range(BLOCKS)]
    return [kernel, positions, blocks, normal(WIDTH, WIDTH, digits.CLASSES)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    images, labels, test_images, test_classes = digits.load_digits()
    minibatches = images.reshape(-1, digits.BATCH, 8, 8, 1)
    parameters: Any = random_weights(seed=0)
    optimizer = convnet.first_optimizer(parameters)
    for number in range(parser.parse_args().epochs):
        for x, y in zip(minibatches, labels.reshape(*minibatches.shape[:2], -1), strict=True):
            loss, optimizer, parameters = train(x, y, parameters, optimizer)
        print(f"epoch {number}: loss of the last minibatch {float(loss):.3f}")
    classes = np.argmax(classify(test_images.reshape(-1, 8, 8, 1), parameters), -1)
    print(f"test accuracy: {(classes == test_classes).mean():.1%} of {len(classes)} test images")


if __name__ == "__main__":
    main()
