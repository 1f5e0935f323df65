"""Measure four sharded layers on 8, 64 and 512 virtual CPU devices, compared with jax.jit.

Each number of devices has a process of its own, because XLA reads it once. The arrays are small and
have the same sizes for any number of devices, so the times are those of the host: what is done once
for a program, and what is done for each device. All times are CPU times, with all threads that take
part.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.timing import in_turns, spread

__all__ = ["DEVICES", "measure_scale"]

ROOT: Final = Path(__file__).resolve().parent.parent

DEVICES: Final = (8, 64, 512)
"""Numbers of devices. Four of them hold parts of a weight, the others parts of the batch."""

_LAYERS: Final = 4
_BATCH, _FEATURES, _INNER = 512, 64, 128
_MODEL: Final = 4


def measure_scale(
    devices: Sequence[int],
    *,
    rounds: int,
    seconds: float,
    on_progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Measure all steps for each number of devices, in a fresh process each.

    Args:
        devices: the numbers of devices, multiples of 4.
        rounds: the maximum number of rounds.
        seconds: the time after which a contender is left out of further rounds.
        on_progress: called with a description of each measurement.

    Returns:
        The entries of "scale", as documented in `benchmarks/figures.py`.
    """
    entries = []
    for count in devices:
        on_progress(f"{count} devices")
        flags = os.environ.get("XLA_FLAGS", "")
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "JAX_PLATFORMS": "cpu",
            # XLA uses the last value of a flag.
            "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count={count}".strip(),
        }
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.scale", str(count), str(rounds), str(seconds)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        times: dict[str, list[float]] = json.loads(done.stdout)
        ms: dict[str, dict[str, Any]] = {}
        for name, values in times.items():
            side, _, step = name.partition(" ")
            ms.setdefault(step, {})[side] = spread([value * 1e3 for value in values])
        ratios = {
            f"{step}, ours/jax": sides["ours"]["median"] / sides["jax"]["median"]
            for step, sides in ms.items()
            if "jax" in sides
        }
        entries.append({"devices": count, "ms": ms, "ratios": ratios})
    return entries


_ON_ONE_THREAD: Final = ("record", "lower", "legalize")
"""The steps that use only the thread that calls them. The CPU time of a process with 512 devices,
which has 1,800 threads, takes half as long to read as recording the program."""


class _Clock:
    """Records the CPU seconds of each step."""

    def __init__(self, side: str) -> None:
        self.side = side
        self.times: dict[str, float] = {}

    def __call__(self, step: str, function: Callable[..., Any], *arguments: Any) -> Any:
        import jax

        now = time.thread_time if step in _ON_ONE_THREAD else time.process_time
        gc.collect()
        start = now()
        result = jax.block_until_ready(function(*arguments))
        self.times[f"{self.side} {step}"] = now() - start
        return result


def _values() -> tuple[list[np.ndarray], np.ndarray]:
    """Return the batch and the weights of the layers, and an array for copies on all devices."""
    random = np.random.default_rng(0)
    sizes = [(_BATCH, _FEATURES), *[(_FEATURES, _INNER), (_INNER, _FEATURES)] * _LAYERS]
    values = [random.normal(0, 0.1, each).astype(np.float32) for each in sizes]
    return values, random.normal(size=(_FEATURES, _FEATURES)).astype(np.float32)


def _record(count: int) -> Any:
    import builder as xb

    mesh = xb.Mesh({"data": count // _MODEL, "model": _MODEL})
    b = xb.XlaBuilder("layers")
    rows = mesh.sharding("data", None)
    x = b.parameter(xb.f32[_BATCH, _FEATURES], "x", sharding=rows)
    for layer in range(_LAYERS):
        wide = mesh.sharding(None, "model")
        narrow = mesh.sharding("model", None)
        up = b.parameter(xb.f32[_FEATURES, _INNER], f"up_{layer}", sharding=wide)
        down = b.parameter(xb.f32[_INNER, _FEATURES], f"down_{layer}", sharding=narrow)
        x = x + xb.tanh(x @ up) @ down
    return b.build(xb.with_sharding(x, rows))


def _ours(count: int, file: Path) -> tuple[dict[str, float], np.ndarray]:
    """Run all steps of xlabuilder. Return their seconds, and the result of the program."""
    from jax.sharding import NamedSharding, PartitionSpec

    import lowering
    from lowering.legalize import legalize

    values, copied = _values()
    clock = _Clock("ours")
    computation = clock("record", _record, count)
    module = clock("lower", lowering.lower, computation)
    clock("legalize", lambda: legalize(module.module, module.name, "cpu", 1, count))
    run = clock("compile", lambda: lowering.compile(module, "cpu", num_partitions=count))
    shardings = list(run.parameter_shardings.values())

    def place() -> list[Any]:
        return list(map(lowering.device_put, values, shardings))

    everywhere = NamedSharding(shardings[0].mesh, PartitionSpec())
    arrays = clock("place shards", place)
    clock("place copies", lowering.device_put, copied, everywhere)
    clock("first call", run, *arrays)
    result = clock("call", run, *arrays)
    clock("call, NumPy arguments", run, *values)
    read: np.ndarray = clock("read", np.asarray, result)
    clock("save", run.save, file)
    clock("load", lowering.load_executable, file)
    return clock.times, read


def _jax(count: int, file: Path) -> tuple[dict[str, float], np.ndarray]:
    """Run the same steps of jax."""
    import jax
    from jax.experimental import serialize_executable
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    values, copied = _values()
    devices = np.array(jax.devices()[:count]).reshape(count // _MODEL, _MODEL)
    mesh = Mesh(devices, ("data", "model"))
    rows, wide, narrow, everywhere = (
        NamedSharding(mesh, PartitionSpec(*axes))
        for axes in (("data", None), (None, "model"), ("model", None), ())
    )
    shardings = [rows, *[wide, narrow] * _LAYERS]

    # A new function for each round, because jax caches traces by function.
    def layers(x: Any, *weights: Any) -> Any:
        for up, down in zip(weights[::2], weights[1::2], strict=True):
            x = x + jax.lax.tanh(x @ up) @ down
        return x

    clock = _Clock("jax")
    function = jax.jit(layers, in_shardings=tuple(shardings), out_shardings=rows)
    traced = clock("record", lambda: function.trace(*values))
    lowered = clock("lower", traced.lower)
    run = clock("compile", lowered.compile)
    arrays = clock("place shards", lambda: list(map(jax.device_put, values, shardings)))
    clock("place copies", jax.device_put, copied, everywhere)
    clock("first call", run, *arrays)
    result = clock("call", run, *arrays)
    clock("call, NumPy arguments", run, *values)
    read: np.ndarray = clock("read", np.asarray, result)
    clock("save", lambda: file.write_bytes(pickle.dumps(serialize_executable.serialize(run))))
    clock(
        "load",
        lambda: serialize_executable.deserialize_and_load(*pickle.loads(file.read_bytes())),
    )
    return clock.times, read


def _main(arguments: Sequence[str]) -> None:
    """Print the seconds of each step in each round, for the devices of this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("rounds", type=int)
    parser.add_argument("seconds", type=float)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        results: dict[str, np.ndarray] = {}

        def turn(side: Callable[[int, Path], tuple[dict[str, float], np.ndarray]]) -> Any:
            seconds, results[side.__name__] = side(options.count, Path(folder, side.__name__))
            return seconds

        contenders = {side.__name__: lambda side=side: turn(side) for side in (_ours, _jax)}
        for run in contenders.values():
            run()  # fills the caches of the process
        np.testing.assert_allclose(results["_ours"], results["_jax"], rtol=1e-4, atol=1e-5)
        times, _ = in_turns(contenders, rounds=options.rounds, seconds=options.seconds)
    print(json.dumps(times))


if __name__ == "__main__":
    _main(sys.argv[1:])
