"""Short forms of `python -m tests.stress`."""

import jax
import numpy as np
import pytest

import lowering
from tests.stress import running

pytestmark = pytest.mark.slow


def test_threads_that_call_and_compile() -> None:
    counted = running.call_and_compile(threads=4, seconds=0.6)
    assert counted["compiled"] >= 4
    assert counted["called"] >= 40 * 4
    assert counted["refused"] >= 10 * 4


def test_calls_without_growth() -> None:
    # 100 bytes for each call would be 1 MB.
    assert running.growth_of_calls(10_000) < 1_000_000


def test_interrupts() -> None:
    run = lowering.compile(running.products(40))
    x = lowering.device_put(np.eye(300, dtype=np.float32))
    running.interrupted(lambda: run(x), after=0.05)
    running.interrupted(lambda: jax.block_until_ready(run(x)), after=0.05)
    assert np.array_equal(run(x), x)
    module = lowering.lower(running.affine(7))
    running.interrupted(lambda: lowering.compile(module), after=0.05)
    ones = np.ones((8, 4), np.float32)
    assert np.array_equal(lowering.compile(module)(ones, ones), ones * 8)
