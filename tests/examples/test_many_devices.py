"""The demos on 8 devices: their numbers are those of one device, or of NumPy."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scripts import load_script

import lowering


def test_replicas_train_as_one_device_does() -> None:
    digits = load_script("examples/digits.py")
    demo = load_script("examples/data_parallel.py")
    images, labels, _, _ = digits.load_digits()
    first = digits.first_state(5)
    # Each replica, with its part of each minibatch.
    train = lowering.compile(demo.train_epoch(8), "cpu", num_replicas=8, results="sharded")
    losses, state = train(
        demo.in_parts(images, 8, digits.PIXELS), demo.in_parts(labels, 8, digits.CLASSES), first
    )
    loss, wanted = lowering.compile(digits.train_epoch, "cpu")(images, labels, first)
    np.testing.assert_allclose(losses, np.full(8, loss), rtol=1e-5)
    for mine, other in zip(jax.tree.leaves(state), jax.tree.leaves(wanted), strict=True):
        # All replicas the same, and as one device has it but for roundings, over 45 steps.
        every = np.asarray(mine)
        np.testing.assert_array_equal(every, np.broadcast_to(every[0], every.shape))
        np.testing.assert_allclose(every[0], other, rtol=1e-2, atol=1e-4)


def test_parts_of_minibatches_are_their_rows() -> None:
    digits = load_script("examples/digits.py")
    demo = load_script("examples/data_parallel.py")
    images, _, _, _ = digits.load_digits()
    parts = demo.in_parts(images, 8, digits.PIXELS)
    assert parts.shape == (8, 45, 4, 64)
    for replica, batch, row in ((0, 0, 0), (3, 17, 2), (7, 44, 3)):
        image = images[batch].reshape(32, 64)[4 * replica + row]
        np.testing.assert_array_equal(parts[replica, batch, row], image)


@pytest.mark.parametrize("microbatches", [1, 5])
def test_a_pipeline_computes_all_layers(microbatches: int) -> None:
    found, wanted = load_script("examples/pipeline.py").run(8, microbatches)
    assert found.shape == (microbatches, 4, 16)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_tokens_go_to_their_experts_and_back() -> None:
    found, wanted = load_script("examples/experts.py").run(8)
    assert found.shape == (8, 8, 16)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
