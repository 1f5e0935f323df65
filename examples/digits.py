"""Train a classifier of handwritten digits that is written with builder ops and the library.

The computation consists of the forward pass, softmax cross-entropy, its gradients, the momentum
update, and an epoch as a while loop over minibatches. It is recorded, lowered to StableHLO, saved
to a file, loaded from the file, and run.

    python examples/digits.py [--epochs N] [--output FOLDER]
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import builder as xb
import lowering
from builder import lib

HERE = Path(__file__).resolve().parent

PIXELS, HIDDEN, CLASSES = 64, 256, 10
BATCH, BATCHES = 32, 45  # 1,440 training images
TEST_IMAGES = 357
LEARNING_RATE, MOMENTUM = 0.1, 0.9

PARAMETERS = (
    xb.f32[PIXELS, HIDDEN],
    xb.f32[HIDDEN],
    xb.f32[HIDDEN, CLASSES],
    xb.f32[CLASSES],
)
# The training state: the parameters, and the velocity of each.
STATE = xb.tuple_shape([xb.tuple_shape(PARAMETERS), xb.tuple_shape(PARAMETERS)])
EPOCH = (xb.f32[BATCHES, BATCH * PIXELS], xb.f32[BATCHES, BATCH * CLASSES], STATE)


def loss_and_gradients(
    x: xb.XlaOp, y: xb.XlaOp, parameters: Sequence[xb.XlaOp]
) -> tuple[xb.XlaOp, list[xb.XlaOp]]:
    """Return the mean softmax cross-entropy of a minibatch and its gradient for each parameter."""
    w1, b1, w2, b2 = parameters
    logits = lib.linear(lib.relu(lib.linear(x, w1, b1)), w2, b2)
    loss = lib.sum(lib.cross_entropy(logits, y)) / BATCH
    return loss, lowering.gradients(loss, parameters)


def update(
    parameters: xb.XlaOp, velocities: xb.XlaOp, gradients: Sequence[xb.XlaOp]
) -> tuple[list[xb.XlaOp], list[xb.XlaOp]]:
    """Return the parameters and velocities after a step of gradient descent with momentum."""
    new_velocities = [v * MOMENTUM + g for v, g in zip(velocities, gradients, strict=True)]
    steps = zip(parameters, new_velocities, strict=True)
    return [p - v * LEARNING_RATE for p, v in steps], new_velocities


# Recorded when it is used: jax, which differentiates the loss, looks for devices then.
@xb.computation
def train_epoch(images: xb.XlaOp, labels: xb.XlaOp, state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
    """Train on all minibatches: (images, labels, state) -> (mean loss, new state)."""

    def condition(loop: xb.XlaOp) -> xb.XlaOp:
        return loop[0] < BATCHES

    def step(loop: xb.XlaOp) -> Any:
        number, total, (parameters, velocities) = loop
        x = xb.reshape(images[number], [BATCH, PIXELS])
        y = xb.reshape(labels[number], [BATCH, CLASSES])
        loss, gradients = loss_and_gradients(x, y, list(parameters))
        return number + 1, total + loss, update(parameters, velocities, gradients)

    _, total, state = xb.while_(condition, step, (0, 0.0, state))
    return total / BATCHES, state


@xb.computation(xb.f32[TEST_IMAGES, PIXELS], xb.tuple_shape(PARAMETERS))
def classify(images: xb.XlaOp, parameters: xb.XlaOp) -> xb.XlaOp:
    """Return the class with the greatest logit for each image."""
    w1, b1, w2, b2 = parameters
    logits = lib.linear(lib.relu(lib.linear(images, w1, b1)), w2, b2)
    return lib.arg_max(logits, xb.s32, axis=-1)


def load_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training images and one-hot labels in minibatches, test images and their classes.

    Every fifth group of ten rows is reserved for the test. The other rows are 45 full minibatches.
    """
    with gzip.open(HERE / "data" / "digits.csv.gz", "rt") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.float32)
    is_test = np.arange(len(rows)) // 10 % 5 == 4
    images, classes = rows[:, :PIXELS] / 16, rows[:, PIXELS].astype(np.int32)
    one_hot = np.eye(CLASSES, dtype=np.float32)[classes]
    return (
        images[~is_test].reshape(BATCHES, BATCH * PIXELS),
        one_hot[~is_test].reshape(BATCHES, BATCH * CLASSES),
        images[is_test],
        classes[is_test],
    )


def first_state(seed: int) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return random weights (He's for the ReLU layer), zero biases and zero velocities."""
    random = np.random.default_rng(seed)
    w1 = random.standard_normal((PIXELS, HIDDEN)) * np.sqrt(2 / PIXELS)
    w2 = random.standard_normal((HIDDEN, CLASSES)) * np.sqrt(1 / HIDDEN)
    arrays = (w1, np.zeros(HIDDEN), w2, np.zeros(CLASSES))
    parameters = tuple(p.astype(np.float32) for p in arrays)
    return parameters, tuple(np.zeros_like(p) for p in parameters)


def through_file(computation: xb.XlaComputation, path: Path) -> lowering.Executable:
    """Save a computation to a file, load it from the file and compile it."""
    lowering.lower(computation).save(path)
    print(f"{path}: {path.stat().st_size:,} bytes")
    return lowering.compile(lowering.load(path))


def relative_to_here(path: Path) -> Path:
    """Return `path` relative to the current folder if it is inside, else as an absolute path."""
    absolute = Path.cwd() / path
    return absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else absolute


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=HERE / "output")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    output = relative_to_here(options.output)

    start = time.perf_counter()
    epoch = train_epoch.computation(*EPOCH)
    train = through_file(epoch, output / "train_epoch.stablehlo")
    predict = through_file(classify, output / "classify.stablehlo")
    print(f"lowered, saved, loaded and compiled in {time.perf_counter() - start:.1f} s")

    images, labels, test_images, test_classes = load_digits()
    state, loss = first_state(options.seed), float("nan")
    # disable=None: no progress bar if stderr is not a terminal.
    with tqdm(range(options.epochs), unit="epoch", disable=None) as epochs:
        for _ in epochs:
            loss, state = train(images, labels, state)
            epochs.set_postfix(loss=f"{float(loss):.5f}")
    correct = np.asarray(predict(test_images, state[0])) == test_classes
    print(f"loss after {options.epochs} epochs: {float(loss):.5f}")
    print(f"test accuracy: {correct.mean():.1%} of {len(correct)} test images")
    show = f"import lowering; print(lowering.load({str(output / 'train_epoch.stablehlo')!r}))"
    print(f'\nTo print the training program:\n  {python_here()} -c "{show}"')


def python_here() -> str:
    """Return the path of this Python, relative to the current folder if it is inside."""
    return str(relative_to_here(Path(sys.executable)))


if __name__ == "__main__":
    main()
