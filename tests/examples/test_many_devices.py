"""The examples on 8 devices give the results of one device, or of NumPy."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scripts import load_script

import lowering

pytestmark = pytest.mark.slow


def test_replicas_train_like_one_device() -> None:
    digits = load_script("examples/digits.py")
    demo = load_script("examples/data_parallel.py")
    images, labels, _, _ = digits.load_digits()
    first = digits.first_state(5)
    train = lowering.compile(demo.train_epoch(8), "cpu", num_replicas=8, results="sharded")
    losses, state = train(
        demo.split(images, 8, digits.PIXELS), demo.split(labels, 8, digits.CLASSES), first
    )
    loss, expected = lowering.compile(digits.train_epoch.computation(*digits.EPOCH), "cpu")(
        images, labels, first
    )
    np.testing.assert_allclose(losses, np.full(8, loss), rtol=1e-5)
    for result, of_one_device in zip(
        jax.tree.leaves(state), jax.tree.leaves(expected), strict=True
    ):
        # All replicas are equal. They differ from one device by rounding errors of 45 steps.
        replicas = np.asarray(result)
        np.testing.assert_array_equal(replicas, np.broadcast_to(replicas[0], replicas.shape))
        np.testing.assert_allclose(replicas[0], of_one_device, rtol=1e-2, atol=1e-4)


def test_minibatches_are_split_by_rows() -> None:
    digits = load_script("examples/digits.py")
    demo = load_script("examples/data_parallel.py")
    images, _, _, _ = digits.load_digits()
    parts = demo.split(images, 8, digits.PIXELS)
    assert parts.shape == (8, 45, 4, 64)
    for replica, batch, row in ((0, 0, 0), (3, 17, 2), (7, 44, 3)):
        image = images[batch].reshape(32, 64)[4 * replica + row]
        np.testing.assert_array_equal(parts[replica, batch, row], image)


@pytest.mark.parametrize("microbatches", [1, 5])
def test_the_pipeline_applies_all_layers(microbatches: int) -> None:
    results, expected = load_script("examples/pipeline.py").run(8, microbatches)
    assert results.shape == (microbatches, 4, 16)
    np.testing.assert_allclose(results, expected, rtol=1e-5, atol=1e-6)


def test_the_experts_compute_their_tokens() -> None:
    results, expected = load_script("examples/experts.py").run(8)
    assert results.shape == (8, 8, 16)
    np.testing.assert_allclose(results, expected, rtol=1e-5, atol=1e-6)
