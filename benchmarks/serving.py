"""Measure eight threads that call one executable, and the start of a saved one, beside jax.

Calls are measured in elapsed time, because the threads share the cores. Each thread waits for a
result before its next call.

The start is the CPU time of a fresh process that has imported NumPy, until the first result of a
compiled program from a file: imports, loading, the first call. jax's file is that of
`jax.experimental.serialize_executable`, pickled, which contains machine code like xlabuilder's.
The third start is that of a program without a file: jax.jit traces, lowers and compiles it.
"""

from __future__ import annotations

import json
import pickle
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.experimental import serialize_executable

import builder as xb
import lowering
from benchmarks.graphs import GRAPHS
from benchmarks.imports import fresh_interpreter
from benchmarks.languages import jax_lax, ours as with_ops
from benchmarks.timing import Round, in_turns, spread, stage_spreads

__all__ = ["PROGRAMS", "STARTED", "THREADS", "Program", "measure_start", "measure_threads"]

THREADS: Final = 8

STARTED: Final = ("layers", 10)
"""The graph that is saved and started, and its size."""

STAGES: Final = ("import", "load", "first call")


class Program(NamedTuple):
    """A program that threads call.

    Attributes:
        name: its name in tables.
        sizes: the sizes of its parameters, which are f32.
        body: a function of ops, or of jax arrays.
        calls: the number of calls of each thread in a round.
    """

    name: str
    sizes: Sequence[tuple[int, int]]
    body: Callable[..., Any]
    calls: int


def _sum(x: Any, y: Any) -> Any:
    return x + y


def _network(x: Any, *weights: Any) -> Any:
    for up, down in zip(weights[::2], weights[1::2], strict=True):
        x = x + (x @ up) @ down
    return x


PROGRAMS: Final = (
    Program("a sum of f32[4,4]", [(4, 4)] * 2, _sum, 2_000),
    Program("8 products of f32[8,256]", [(8, 256), *[(256, 512), (512, 256)] * 4], _network, 100),
)
"""A program that takes no time, and one of about a millisecond."""


def measure_threads(
    programs: Sequence[Program],
    *,
    rounds: int,
    seconds: float,
    on_progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Measure the calls of eight threads, xlabuilder and jax in turns.

    Args:
        programs: the programs.
        rounds: the maximum number of rounds.
        seconds: the time after which a contender is left out of further rounds.
        on_progress: called with a description of each measurement.

    Returns:
        The entries of "threads", as documented in `benchmarks/figures.py`.
    """
    device = lowering.device()
    entries = []
    for program in programs:
        on_progress(f"{THREADS} threads: {program.name}")
        random = np.random.default_rng(0)
        host = [random.normal(0, 0.05, sizes).astype(np.float32) for sizes in program.sizes]
        arrays = [lowering.device_put(array, device) for array in host]
        b = xb.XlaBuilder("served")
        ours = lowering.compile(b.build(program.body(*map(b.parameter, _shapes(program)))), device)
        theirs = jax.jit(program.body)
        np.testing.assert_allclose(ours(*arrays), theirs(*arrays), rtol=1e-4, atol=1e-5)
        contenders: dict[str, Round] = {
            side: partial(_round, side, partial(call, *arrays), program.calls)
            for side, call in (("ours", ours), ("jax", theirs))
        }
        times, _ = in_turns(contenders, rounds=rounds, seconds=seconds)
        values: dict[str, dict[str, Any]] = {}
        for name, found in times.items():
            side, _, quantity = name.partition(" ")
            values.setdefault(quantity, {})[side] = spread(found)
        ratios = {
            f"{quantity}, ours/jax": sides["ours"]["median"] / sides["jax"]["median"]
            for quantity, sides in values.items()
        }
        entry = {"program": program.name, "threads": THREADS, "us": values, "ratios": ratios}
        entries.append(entry)
    return entries


def _shapes(program: Program) -> list[xb.ArrayShape]:
    return [xb.f32[sizes] for sizes in program.sizes]


def _round(side: str, call: Callable[[], Any], count: int) -> dict[str, float]:
    """Return the microseconds of the median call, and of the slowest of 100.

    "throughput" is the elapsed time divided by the number of calls of all threads.
    """
    durations: list[list[float]] = [[] for _ in range(THREADS)]
    barrier = threading.Barrier(THREADS + 1)

    def serve(own: list[float]) -> None:
        barrier.wait()
        for _ in range(count):
            start = time.perf_counter()
            jax.block_until_ready(call())
            own.append(time.perf_counter() - start)

    threads = [threading.Thread(target=serve, args=(own,)) for own in durations]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - start
    found = [seconds * 1e6 for own in durations for seconds in own]
    if len(found) != THREADS * count:
        raise RuntimeError(f"{side}: a thread failed")
    return {
        f"{side} throughput": elapsed * 1e6 / len(found),
        f"{side} median": statistics.median(found),
        f"{side} slowest of 100": statistics.quantiles(found, n=100)[-1],
    }


_PROGRAM: Final = """\
import json, time
import numpy, ml_dtypes
arguments = list(numpy.load({arguments!r}).values())
times = {{}}
last = time.process_time()
def end_stage(stage):
    global last
    now = time.process_time()
    times[{side!r} + " " + stage] = now - last
    last = now
{imports}
end_stage("import")
{load}
end_stage("load")
result = run(*arguments)
numpy.asarray(result[0] if isinstance(result, (list, tuple)) else result)
end_stage("first call")
print(json.dumps(times))
"""

_STARTS: Final = {
    "ours": (
        "import lowering\nlowering.load_executable",
        "run = lowering.load_executable({file!r})",
    ),
    "jax": (
        "import jax, pathlib, pickle\nfrom jax.experimental import serialize_executable",
        """\
saved = pickle.loads(pathlib.Path({file!r}).read_bytes())
run = serialize_executable.deserialize_and_load(*saved, execution_devices=jax.devices()[:1])""",
    ),
    "jit": (
        "import jax\nfrom benchmarks.languages import jax_lax",
        """\
from benchmarks.graphs import GRAPHS
function, shapes = jax_lax.record(GRAPHS[{graph!r}], {size})
run = jax.jit(function).lower(*shapes).compile()""",
    ),
}
"""For each side its imports, and what makes `run`."""


def measure_start(
    graph_name: str, size: int, *, rounds: int, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Measure the start of a saved program in fresh processes, for both sides in turns.

    Args:
        graph_name: the name of a graph of `benchmarks.graphs`.
        size: its size.
        rounds: the number of processes for each side.
        on_progress: called with a description of each measurement.

    Returns:
        The entry "start", as documented in `benchmarks/figures.py`.
    """
    graph = GRAPHS[graph_name]
    with tempfile.TemporaryDirectory() as folder:
        files = {side: str(Path(folder, side)) for side in _STARTS}
        function, arguments = jax_lax.record(graph, size)
        arrays = [np.ones(each.shape, each.dtype) for each in arguments]
        np.savez(Path(folder, "arguments.npz"), *arrays)
        lowering.compile(with_ops.record(graph, size)).save(files["ours"])
        compiled = jax.jit(function).lower(*arguments).compile()
        saved = pickle.dumps(serialize_executable.serialize(compiled))
        Path(files["jax"]).write_bytes(saved)
        python = fresh_interpreter(str(Path(folder, "cache")))

        def start(side: str) -> dict[str, float]:
            imports, load = _STARTS[side]
            program = _PROGRAM.format(
                side=side,
                arguments=str(Path(folder, "arguments.npz")),
                imports=imports,
                load=load.format(file=files[side], graph=graph_name, size=size),
            )
            times: dict[str, float] = json.loads(python("-c", program).stdout)
            return times

        starts = {side: partial(start, side) for side in _STARTS}
        for side, run in starts.items():
            on_progress(f"start of {graph_name} {size:,}, {side}")
            run()  # fills the cache of compiled modules
        times, _ = in_turns(starts, rounds=rounds, seconds=float("inf"))
    ms = stage_spreads(times, {"total": STAGES})
    totals = {side: stages["total"]["median"] for side, stages in ms.items()}
    ratios = {f"total, ours/{side}": totals["ours"] / totals[side] for side in ("jax", "jit")}
    return {"graph": graph_name, "size": size, "ms": ms, "ratios": ratios}
