"""The example trains, and its gradients equal those of jax and those written by hand."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import run_python
from scripts import ROOT, load_script

import builder as xb
import lowering
from builder import lib

pytestmark = pytest.mark.slow

DIGITS = ROOT / "examples" / "digits.py"


@pytest.fixture(scope="module")
def digits() -> ModuleType:
    return load_script("examples/digits.py")


def test_it_learns_and_saves_its_programs(tmp_path: Path) -> None:
    done = run_python(str(DIGITS), "--epochs", "30", "--output", "out", cwd=tmp_path)
    # No progress bar, because stderr is not a terminal.
    assert done.stderr == ""
    accuracy = re.search(r"^test accuracy: ([\d.]+)% of 357", done.stdout, re.MULTILINE)
    assert accuracy is not None, done.stdout
    assert float(accuracy[1]) > 95
    # Paths are relative to the current folder.
    assert "out/train_epoch.stablehlo" in done.stdout.replace(os.sep, "/")
    assert str(tmp_path) not in done.stdout

    train = lowering.load(tmp_path / "out" / "train_epoch.stablehlo")
    assert train.name == "train_epoch"
    assert train.program_shape.parameter_names == ("images", "labels", "state")
    assert "stablehlo.while" in train.text
    classify = lowering.load(tmp_path / "out" / "classify.stablehlo")
    assert classify.program_shape.result is xb.s32[357]


def jax_loss(parameters: tuple[jax.Array, ...], x: jax.Array, y: jax.Array) -> jax.Array:
    w1, b1, w2, b2 = parameters
    hidden = jax.nn.relu(jnp.dot(x, w1) + b1)
    return -jnp.mean(jnp.sum(y * jax.nn.log_softmax(jnp.dot(hidden, w2) + b2), axis=1))


def test_loss_and_gradients_equal_those_of_jax(digits: ModuleType) -> None:
    @xb.computation(
        xb.f32[digits.BATCH, digits.PIXELS],
        xb.f32[digits.BATCH, digits.CLASSES],
        xb.tuple_shape(digits.PARAMETERS),
    )
    def step(x, y, parameters):
        return digits.loss_and_gradients(x, y, list(parameters))

    images, labels, _, _ = digits.load_digits()
    parameters, _ = digits.first_state(3)
    run = lowering.compile(step, "cpu")
    for number in (0, 44):
        x = images[number].reshape(digits.BATCH, digits.PIXELS)
        y = labels[number].reshape(digits.BATCH, digits.CLASSES)
        loss, gradients = run(x, y, parameters)
        expected_loss, expected = jax.value_and_grad(jax_loss)(parameters, x, y)
        np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
        for gradient, expected_gradient in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-6)


def loss_and_gradients_by_hand(
    digits: ModuleType, x: xb.XlaOp, y: xb.XlaOp, parameters: Sequence[xb.XlaOp]
) -> tuple[xb.XlaOp, list[xb.XlaOp]]:
    """Return what `loss_and_gradients` of the example returns.

    Let z be the logits and y the one-hot labels. The gradient with respect to z is
    (softmax(z) - y) / batch. The other gradients follow by the chain rule.
    """
    w1, b1, w2, b2 = parameters
    before = lib.linear(x, w1, b1)
    hidden = lib.relu(before)
    logits = lib.linear(hidden, w2, b2)
    loss = lib.sum(lib.cross_entropy(logits, y)) / digits.BATCH

    d_logits = (lib.softmax(logits) - y) / digits.BATCH
    d_hidden = d_logits @ xb.transpose(w2, [1, 0])
    d_before = xb.select(before > 0.0, d_hidden, 0.0)
    gradients = [
        xb.transpose(x, [1, 0]) @ d_before,
        lib.sum(d_before, axis=0),
        xb.transpose(hidden, [1, 0]) @ d_logits,
        lib.sum(d_logits, axis=0),
    ]
    return loss, gradients


def test_gradients_equal_those_written_by_hand(digits: ModuleType) -> None:
    @xb.computation(
        xb.f32[digits.BATCH, digits.PIXELS],
        xb.f32[digits.BATCH, digits.CLASSES],
        xb.tuple_shape(digits.PARAMETERS),
    )
    def both(x: xb.XlaOp, y: xb.XlaOp, state: xb.XlaOp) -> Any:
        parameters = list(state)
        derived = digits.loss_and_gradients(x, y, parameters)
        return derived, loss_and_gradients_by_hand(digits, x, y, parameters)

    images, labels, _, _ = digits.load_digits()
    x = images[0].reshape(digits.BATCH, digits.PIXELS)
    y = labels[0].reshape(digits.BATCH, digits.CLASSES)
    derived, by_hand = lowering.compile(both, "cpu")(x, y, digits.first_state(3)[0])
    for one, other in zip(jax.tree.leaves(derived), jax.tree.leaves(by_hand), strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6 * scale)


def test_an_epoch_equals_that_of_jax(digits: ModuleType) -> None:
    images, labels, _, _ = digits.load_digits()
    parameters, velocities = state = digits.first_state(4)
    loss, results = lowering.compile(digits.train_epoch.computation(*digits.EPOCH), "cpu")(
        images, labels, state
    )

    value_and_grad = jax.jit(jax.value_and_grad(jax_loss))
    losses = []
    for x, y in zip(images, labels, strict=True):
        x = x.reshape(digits.BATCH, digits.PIXELS)
        y = y.reshape(digits.BATCH, digits.CLASSES)
        batch_loss, gradients = value_and_grad(parameters, x, y)
        losses.append(batch_loss)
        velocities = [
            v * np.float32(digits.MOMENTUM) + g for v, g in zip(velocities, gradients, strict=True)
        ]
        parameters = tuple(
            p - v * np.float32(digits.LEARNING_RATE)
            for p, v in zip(parameters, velocities, strict=True)
        )
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-4)
    # Rounding errors accumulate over 45 steps.
    for result, expected in zip(jax.tree.leaves(results), (*parameters, *velocities), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-2, atol=1e-4)


def test_training_and_test_images_are_disjoint(digits: ModuleType) -> None:
    images, labels, test_images, test_classes = digits.load_digits()
    assert images.shape == (45, 32 * 64)
    assert labels.shape == (45, 32 * 10)
    assert labels.sum() == 45 * 32
    assert test_images.shape == (357, 64)
    assert test_classes.min() == 0
    assert test_classes.max() == 9
    training = {row.tobytes() for row in images.reshape(-1, 64)}
    assert not any(row.tobytes() in training for row in test_images)
