"""What a call of a compiled computation takes, beside jax.jit of the same function.

Measured is the time until the call comes back, with arrays of the device and with NumPy arrays. The
programs add arrays of 16 numbers, so that as good as nothing is the program's own. They have two
dimensions: that a memory layout has to be right is asked of those only.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np

import builder as xb
import lowering
from benchmarks.timing import Round, in_turns, spread

__all__ = ["COUNTS", "measure_dispatch"]

COUNTS: Final = ((2, 1), (16, 16), (200, 200))
"""How many arguments and results."""

_DIMENSIONS: Final = (4, 4)
_DEVICES: Final = 8
"""Of so many devices at most the calls on several are measured, if there are as many."""


def _ours(arguments: int, results: int) -> xb.XlaComputation:
    builder = xb.XlaBuilder("sums")
    values = [builder.parameter(xb.f32[_DIMENSIONS], f"p{i}") for i in range(arguments)]
    sums = [values[i] + values[(i + 1) % arguments] for i in range(results)]
    return builder.build(sums[0] if results == 1 else xb.tuple(*sums))


def _theirs(arguments: int, results: int) -> Callable[..., Any]:
    def sums(*values: Any) -> Any:
        found = [values[i] + values[(i + 1) % arguments] for i in range(results)]
        return found[0] if results == 1 else tuple(found)

    return sums


def measure_dispatch(
    counts: Sequence[tuple[int, int]],
    *,
    rounds: int,
    seconds: float,
    tell: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Microseconds of a call, ours and jax's in turns.

    Args:
        counts: how many arguments and results.
        rounds: how many rounds at most.
        seconds: what one contender may use up before it is left out of further rounds.
        tell: is told what is measured now.

    Returns:
        For each program and each kind of arguments what `benchmarks/figures.py` says of "dispatch".
    """
    device = lowering.device()
    found = []
    for arguments, results in counts:
        tell(f"calls, {arguments} in, {results} out")
        host = [np.full(_DIMENSIONS, i, np.float32) for i in range(arguments)]
        there = [lowering.device_put(array, device) for array in host]
        ours = lowering.compile(_ours(arguments, results), device)
        theirs = jax.jit(_theirs(arguments, results))
        of_function = lowering.jit(_theirs(arguments, results))
        for kind, values in (("device", there), ("NumPy", host)):
            calls = {
                "ours": _call(ours, values),
                "lowering.jit": _call(of_function, values),
                "jax": _call(theirs, values),
            }
            entry = _measured(calls, 6_000 // (arguments + 1), rounds, seconds)
            found.append({"arguments": arguments, "results": results, "kind": kind} | entry)
    count = min(len(lowering.devices(device.platform)), _DEVICES)
    if count > 1:
        tell(f"calls on {count} devices")
        found.append(_on_several(device.platform, count, rounds, seconds))
    return found


def _on_several(platform: str, count: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Replicas that compute alone, beside jax.jit of a function that jax.shard_map maps."""
    run = lowering.compile(_ours(2, 1), platform, num_replicas=count, results="sharded")
    mesh = jax.sharding.Mesh(np.array(run.devices), ("device",))
    cut = jax.sharding.PartitionSpec("device")
    mapped = jax.shard_map(_theirs(2, 1), mesh=mesh, in_specs=(cut, cut), out_specs=cut)
    rows = np.ones((count, *_DIMENSIONS), np.float32)
    values = [jax.device_put(rows, run.sharding) for _ in range(2)]
    calls = {"ours": _call(run, values), "jax": _call(jax.jit(mapped), values)}
    entry = _measured(calls, 500, rounds, seconds)
    return {"arguments": 2, "results": 1, "kind": f"rows on {count} devices"} | entry


def _call(function: Callable[..., Any], values: Sequence[Any]) -> Callable[[], Any]:
    return lambda: function(*values)


def _measured(
    calls: dict[str, Callable[[], Any]], count: int, rounds: int, seconds: float
) -> dict[str, Any]:
    """Spreads of a call's microseconds, and ratios, of functions that give equal results."""
    wanted = jax.tree.leaves(calls["jax"]())
    for call in calls.values():
        # A figure of something that gives wrong results would be worth nothing.
        for one, other in zip(jax.tree.leaves(call()), wanted, strict=True):
            assert np.array_equal(one, other)

    def many(call: Callable[[], Any]) -> float:
        gc.collect()
        began = time.process_time()
        for _ in range(count):
            result = call()
        passed = time.process_time() - began
        jax.block_until_ready(result)
        return passed

    def turn(name: str, call: Callable[[], Any]) -> Round:
        return lambda: {name: many(call)}

    turns = {name: turn(name, call) for name, call in calls.items()}
    times, _ = in_turns(turns, rounds=rounds, seconds=seconds)
    us = {name: spread([one * 1e6 / count for one in each]) for name, each in times.items()}
    ratios = {f"{name}/jax": us[name]["median"] / us["jax"]["median"] for name in us}
    return {"us": us, "ratios": {name: r for name, r in ratios.items() if name != "jax/jax"}}
