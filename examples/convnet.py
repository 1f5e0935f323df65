"""Classify handwritten digits with a convolutional network.

The kernels of the convolutions are random, and the last layer is fitted by least squares.

    python examples/convnet.py
"""

from __future__ import annotations

import digits
import numpy as np

import builder as xb
import lowering
from builder import lib


@lowering.jit
def features(images: xb.XlaOp, kernel: xb.XlaOp, kernel_2: xb.XlaOp) -> xb.XlaOp:
    """Return the features of images f32[N, 8, 8, 1]: f32[N, 4 * channels of kernel_2]."""
    x = lib.relu(lib.conv(images, kernel))
    x = lib.avg_pool(x, [2, 2], [2, 2], "VALID", "NHWC", True)
    x = lib.relu(lib.conv(x, kernel_2))
    x = lib.max_pool(x, [2, 2], [2, 2], "VALID", "NHWC")
    return xb.collapse(x, [1, 2, 3])


@lowering.jit
def classify(features: xb.XlaOp, weights: xb.XlaOp) -> xb.XlaOp:
    """Return the class of each row of features."""
    return lib.arg_max(lib.linear(features, weights), xb.s32, -1)


def random_kernels(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    sizes = (3, 3, 1, 32), (3, 3, 32, 128)
    first, second = (random.normal(0, 1 / np.sqrt(np.prod(s[:3])), s) for s in sizes)
    return first.astype(np.float32), second.astype(np.float32)


def main() -> None:
    images, labels, test_images, test_classes = digits.load_digits()
    kernels = random_kernels(seed=0)
    training = np.asarray(features(images.reshape(-1, 8, 8, 1), *kernels))
    # Ridge regression of the one-hot labels.
    square = training.T @ training + np.eye(training.shape[1], dtype=np.float32)
    weights = np.linalg.solve(square, training.T @ labels.reshape(-1, digits.CLASSES))
    classes = classify(features(test_images.reshape(-1, 8, 8, 1), *kernels), weights)
    accuracy = (np.asarray(classes) == test_classes).mean()
    print(f"test accuracy: {accuracy:.1%} of {len(test_classes)} test images")


if __name__ == "__main__":
    main()
