"""Measure the time of a call of a compiled computation, and of jax.jit of the same function.

The arguments are device arrays or NumPy arrays. The programs add arrays of 16 numbers, so that
their own time is negligible; it is the processor's time until the call returns. The arrays have two
dimensions, because layouts are checked only for two or more. For arrays of 64 MiB it is the elapsed
time until the result is available.

jax uses a NumPy array in place if its address is a multiple of 64, and copies any other. NumPy's
addresses are multiples of 16, so that one small array in four is aligned by chance. Large ones,
for which the system maps pages, are not. So the addresses are chosen here.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np

import builder as xb
import lowering
from benchmarks.budget import ALIGNED_ARRAYS, LARGE_ARRAYS
from benchmarks.timing import Round, in_turns, spread

__all__ = ["COUNTS", "call_ratios", "measure_dispatch"]

COUNTS: Final = ((2, 1), (16, 16), (200, 200))
"""Numbers of arguments and results."""

_DIMENSIONS: Final = (4, 4)
_LARGE_DIMENSIONS: Final = (4096, 4096)
_ALIGNMENT: Final = 64
_DEVICES: Final = 8
"""The most devices on which calls on several devices are measured."""


def _ours(
    arguments: int, results: int, dimensions: tuple[int, ...] = _DIMENSIONS
) -> xb.XlaComputation:
    builder = xb.XlaBuilder("sums")
    values = [builder.parameter(xb.f32[dimensions], f"p{i}") for i in range(arguments)]
    sums = [values[i] + values[(i + 1) % arguments] for i in range(results)]
    return builder.build(sums[0] if results == 1 else xb.tuple(*sums))


def _theirs(arguments: int, results: int) -> Callable[..., Any]:
    def add_pairs(*values: Any) -> Any:
        sums = [values[i] + values[(i + 1) % arguments] for i in range(results)]
        return sums[0] if results == 1 else tuple(sums)

    return add_pairs


def measure_dispatch(
    counts: Sequence[tuple[int, int]],
    *,
    rounds: int,
    seconds: float,
    on_progress: Callable[[str], None],
    has_large: bool = True,
) -> list[dict[str, Any]]:
    """Measure calls of xlabuilder and of jax, in turns.

    Args:
        counts: numbers of arguments and results.
        rounds: the maximum number of rounds.
        seconds: the time after which a contender is left out of further rounds.
        on_progress: called with a description of each measurement.
        has_large: whether to measure a call with large NumPy arrays.

    Returns:
        The entries of "dispatch", as documented in `benchmarks/figures.py`: one for each program
        and kind of arguments.
    """
    device = lowering.device()
    entries = []
    for arguments, results in counts:
        on_progress(f"calls, {arguments} in, {results} out")
        host = [_array(i, _DIMENSIONS, offset=16) for i in range(arguments)]
        aligned = [_array(i, _DIMENSIONS, offset=0) for i in range(arguments)]
        on_device = [lowering.device_put(array, device) for array in host]
        ours = lowering.compile(_ours(arguments, results), device)
        theirs = jax.jit(_theirs(arguments, results))
        jitted = lowering.jit(_theirs(arguments, results))
        for kind, values in (("device", on_device), ("NumPy", host), (ALIGNED_ARRAYS, aligned)):
            calls = {
                "ours": _call(ours, values),
                "lowering.jit": _call(jitted, values),
                "jax": _call(theirs, values),
            }
            entry = _measured(calls, 6_000 // (arguments + 1), rounds, seconds)
            entries.append({"arguments": arguments, "results": results, "kind": kind} | entry)
    if has_large:
        on_progress("calls with large arrays")
        entries.append(_on_large_arrays(device, rounds, seconds))
    count = min(len(lowering.devices(device.platform)), _DEVICES)
    if count > 1:
        on_progress(f"calls on {count} devices")
        entries.append(_on_several_devices(device.platform, count, rounds, seconds))
    return entries


def call_ratios(rounds: int, seconds: float) -> dict[str, float]:
    """Return the ratios of the least times of calls with two arrays."""
    pairs = measure_dispatch(
        COUNTS[:1], rounds=rounds, seconds=seconds, on_progress=lambda _: None, has_large=False
    )
    return {
        f"{entry['kind']} arguments, {name}/jax": us["least"] / entry["us"]["jax"]["least"]
        for entry in pairs
        for name, us in entry["us"].items()
        if name != "jax"
    }


def _on_several_devices(platform: str, count: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Measure calls of independent replicas, and of jax.jit of a function of jax.shard_map."""
    run = lowering.compile(_ours(2, 1), platform, num_replicas=count, results="sharded")
    mesh = jax.sharding.Mesh(np.array(run.devices), ("device",))
    spec = jax.sharding.PartitionSpec("device")
    mapped = jax.shard_map(_theirs(2, 1), mesh=mesh, in_specs=(spec, spec), out_specs=spec)
    rows = np.ones((count, *_DIMENSIONS), np.float32)
    values = [jax.device_put(rows, run.sharding) for _ in range(2)]
    calls = {"ours": _call(run, values), "jax": _call(jax.jit(mapped), values)}
    entry = _measured(calls, 500, rounds, seconds)
    return {"arguments": 2, "results": 1, "kind": f"rows on {count} devices"} | entry


def _on_large_arrays(device: jax.Device, rounds: int, seconds: float) -> dict[str, Any]:
    """Measure calls with large NumPy arrays, until the result is available."""
    values = [_array(i, _LARGE_DIMENSIONS, offset=16) for i in range(2)]
    calls = {
        "ours": _call(lowering.compile(_ours(2, 1, _LARGE_DIMENSIONS), device), values),
        "lowering.jit": _call(lowering.jit(_theirs(2, 1)), values),
        "jax": _call(jax.jit(_theirs(2, 1)), values),
    }
    entry = _measured(calls, 1, rounds, seconds, until_done=True)
    return {"arguments": 2, "results": 1, "kind": LARGE_ARRAYS} | entry


def _array(number: int, dimensions: tuple[int, ...], offset: int) -> np.ndarray[Any, Any]:
    """Return an array of one number at an address that is `offset` beyond a multiple of 64."""
    size = 4 * math.prod(dimensions)
    memory = np.empty(size + 2 * _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT + offset
    array = memory[start : start + size].view(np.float32).reshape(dimensions)
    array[...] = number
    return array


def _call(function: Callable[..., Any], values: Sequence[Any]) -> Callable[[], Any]:
    return lambda: function(*values)


def _measured(
    calls: dict[str, Callable[[], Any]],
    count: int,
    rounds: int,
    seconds: float,
    *,
    until_done: bool = False,
) -> dict[str, Any]:
    """Return the spreads of the microseconds of a call, and ratios. The results must be equal.

    With `until_done` it is the elapsed time until the results are available, otherwise the
    processor's time until the calls return.
    """
    clock = time.perf_counter if until_done else time.process_time
    expected = jax.tree.leaves(calls["jax"]())
    for call in calls.values():
        for result, reference in zip(jax.tree.leaves(call()), expected, strict=True):
            assert np.array_equal(result, reference)

    def round_of(name: str, call: Callable[[], Any]) -> Round:
        def run() -> dict[str, float]:
            gc.collect()
            start = clock()
            for _ in range(count):
                result = call()
            if until_done:
                jax.block_until_ready(result)
            elapsed = clock() - start
            jax.block_until_ready(result)
            return {name: elapsed}

        return run

    round_functions = {name: round_of(name, call) for name, call in calls.items()}
    times, _ = in_turns(round_functions, rounds=rounds, seconds=seconds)
    us = {name: spread([t * 1e6 / count for t in values]) for name, values in times.items()}
    theirs = us["jax"]["median"]
    ratios = {f"{name}/jax": us[name]["median"] / theirs for name in us if name != "jax"}
    return {"us": us, "ratios": ratios}
