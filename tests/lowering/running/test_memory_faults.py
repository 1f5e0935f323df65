"""Out of memory: an error of this library with the requested size; the next call works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from processes import run_python

import builder as xb
import lowering

TOO_MANY = 25 * 10**12
"""The f32 elements take 91 TiB, more than any machine has."""


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
        assert f": 90.95 TiB at once; the program needs {needs} on each device\nfix: " in message
        assert "RESOURCE_EXHAUSTED" in caught.value.detail
        actual = small(1.5 if replicas == 1 else np.float32(1.5))
        for one in actual if replicas > 1 else [actual]:
            assert np.asarray(one)[0] == 1.5


UNAVAILABLE_LATER = r"""
import resource
from pathlib import Path

import builder as xb
import lowering
import numpy as np
import pytest

COUNT = 1 << 24
b = xb.XlaBuilder("results")
large = lowering.compile(b.build(xb.broadcast(b.parameter(xb.f32[()], "x"), [COUNT])), "cpu")
b = xb.XlaBuilder("first")
first = lowering.compile(b.build(xb.slice(b.parameter(xb.f32[COUNT], "x"), [0], [1], [1])), "cpu")
x = lowering.device_put(np.float32(1.5))
for _ in range(2):
    assert large(x)[-1] == 1.5
given = np.zeros(COUNT, np.float32)  # its pages are allocated when they are written
before = resource.getrlimit(resource.RLIMIT_AS)
has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (has + (16 << 20), before[1]))
with pytest.raises(lowering.ExecutionError, match=r"results: out of memory on .*: 64 MiB"):
    large(x)
with pytest.raises(lowering.ExecutionError, match=r"no memory for f32\[16777216\]"):
    first(given)
resource.setrlimit(resource.RLIMIT_AS, before)
assert large(x)[0] == 1.5
assert first(given) == 0
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts pages as Linux does")
def test_memory_that_became_unavailable_after_the_first_call() -> None:
    """jaxlib executes the call without Python, and raises an error of its own.

    In another process, because memory that other tests no longer use could be given back meanwhile.
    """
    run_python("-c", UNAVAILABLE_LATER)


def test_an_array_that_is_too_large() -> None:
    """A broadcast view of one element on the host is too large on the device."""
    array = np.broadcast_to(np.float32(1), (TOO_MANY,))
    with pytest.raises(lowering.ExecutionError) as caught:
        lowering.device_put(array, "cpu")
    message = str(caught.value)
    assert message.startswith(f"device_put: there is no memory for f32[{TOO_MANY}] (90.95 TiB) on ")
    assert "\nfix: delete arrays that are no longer needed" in message
    mesh = Mesh(np.array(lowering.devices("cpu")[:2]), ("x",))
    with pytest.raises(
        lowering.ExecutionError, match=r"no memory for f32\[25000000000000\] .* on 2 devices"
    ):
        lowering.device_put(array, NamedSharding(mesh, PartitionSpec("x")))
    assert np.asarray(lowering.device_put(array[:2], "cpu")).tolist() == [1, 1]


def test_a_copy_that_the_operating_system_would_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    """With vm.overcommit_memory=1, Linux grants any memory, and ends the process that uses it."""
    monkeypatch.setattr("lowering.pjrt.devices.host_memory", lambda: 64.0)
    fits, large = (np.ones((4, count), np.float32).T for count in (4, 5))
    assert lowering.device_put(fits, "cpu").shape == (4, 4)
    with pytest.raises(lowering.ExecutionError, match=r"no memory for f32\[5,4\] \(80 B\)"):
        lowering.device_put(large, "cpu")


def test_an_argument_that_is_too_large() -> None:
    b = xb.XlaBuilder("argument")
    x = b.parameter(xb.f32[TOO_MANY], "x")
    program = lowering.compile(b.build(xb.slice(x, [0], [1], [1])), "cpu")
    with pytest.raises(lowering.ExecutionError, match=r"there is no memory for f32\[25000"):
        program(np.broadcast_to(np.float32(1), (TOO_MANY,)))
    assert isinstance(jax.block_until_ready(lowering.device_put(np.ones(2), "cpu")), jax.Array)
