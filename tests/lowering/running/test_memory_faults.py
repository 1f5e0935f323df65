"""Out of memory: an error of ours that says how much was asked for, and the next call works."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import builder as xb
import lowering

TOO_MANY = 25 * 10**12
"""So many f32s take 91 TiB, which no machine has."""


def results(count: int) -> xb.XlaComputation:
    b = xb.XlaBuilder("results")
    return b.build(xb.broadcast(b.parameter(xb.f32[()], "x"), [count]))


def temporaries(count: int) -> xb.XlaComputation:
    b = xb.XlaBuilder("temporaries")
    x = b.parameter(xb.f32[()], "x")
    values = xb.sort(xb.broadcast(x, [count]) + b.iota(xb.f32[count], 0))
    return b.build(xb.slice(values, [0], [1], [1]))


@pytest.mark.parametrize(
    ("make", "needs"),
    [
        (results, "4 B of arguments, 90.95 TiB of results, 0 of temporary"),
        (temporaries, "4 B of arguments, 4 B of results, 90.95 TiB of temporary"),
    ],
)
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_program_that_needs_too_much(make: Any, needs: str, replicas: int) -> None:
    small = lowering.compile(make(3), "cpu", num_replicas=replicas)
    large = lowering.compile(make(TOO_MANY), "cpu", num_replicas=replicas)
    for _ in range(2):
        with pytest.raises(lowering.ExecutionError) as caught:
            large(1.5 if replicas == 1 else np.float32(1.5))
        message = str(caught.value)
        assert message.startswith(f"{make.__name__}: out of memory on ")
        assert f": 90.95 TiB at once; the program takes {needs} on each device\nfix: " in message
        assert "RESOURCE_EXHAUSTED" in caught.value.detail
        found = small(1.5 if replicas == 1 else np.float32(1.5))
        for one in found if replicas > 1 else [found]:
            assert np.asarray(one)[0] == 1.5


def test_an_array_that_is_too_large() -> None:
    """The elements are one in the host's memory, and would be many on the device."""
    array = np.broadcast_to(np.float32(1), (TOO_MANY,))
    with pytest.raises(lowering.ExecutionError) as caught:
        lowering.device_put(array, "cpu")
    message = str(caught.value)
    assert message.startswith(f"device_put: there is no memory for f32[{TOO_MANY}] (90.95 TiB) on ")
    assert "\nfix: delete arrays that are not needed any more" in message
    mesh = Mesh(np.array(lowering.devices("cpu")[:2]), ("x",))
    with pytest.raises(lowering.ExecutionError, match=r"no memory for f32\[12500000000000\]"):
        lowering.device_put(array, NamedSharding(mesh, PartitionSpec("x")))
    assert np.asarray(lowering.device_put(array[:2], "cpu")).tolist() == [1, 1]


def test_an_argument_that_is_too_large() -> None:
    b = xb.XlaBuilder("argument")
    x = b.parameter(xb.f32[TOO_MANY], "x")
    program = lowering.compile(b.build(xb.slice(x, [0], [1], [1])), "cpu")
    with pytest.raises(lowering.ExecutionError, match=r"there is no memory for f32\[25000"):
        program(np.broadcast_to(np.float32(1), (TOO_MANY,)))
    assert isinstance(jax.block_until_ready(lowering.device_put(np.ones(2), "cpu")), jax.Array)
