"""Measure the first build in a fresh process, for xlabuilder and jax.jit.

The stages are imports, recording and lowering. Compiled Python modules are on disk already, as
after an installation. All other one-time work of a process (imports, contexts, caches of shapes and
of primitives) is included. Times are CPU times of the main thread, as in `benchmarks.imports`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from benchmarks.imports import fresh_interpreter
from benchmarks.timing import in_turns, stage_spreads

__all__ = ["COLD", "GUARDED_SIZE", "PAIRS", "cold_ratios", "measure_cold"]

COLD: Final = "cold"
"""The name of these ratios."""

STAGES: Final = ("import", "record", "lower")
SIDES: Final = ("ours", "jax")

PAIRS: Final = (("chain", 4), ("layers", 10), ("transformer", 24))
"""A graph of a few ops, whose time is that of the imports, a small one and a large one."""

GUARDED_SIZE: Final = 6
"""The size of the larger graph in `cold_ratios`."""

# NumPy is imported before the clock starts, since both sides need it.
_OURS: Final = """\
from benchmarks.languages import ours
import lowering
lowering.lower
end_stage("ours import")
computation = ours.record(graph, size)
end_stage("ours record")
module = lowering.lower(computation)
end_stage("ours lower")
from benchmarks.contenders import counts
times["ops"] = counts(computation)["ops"]
"""
_JAX: Final = """\
from benchmarks.languages import jax_lax
import jax
end_stage("jax import")
function, arguments = jax_lax.record(graph, size)
traced = jax.jit(function).trace(*arguments)
end_stage("jax record")
traced.lower()
end_stage("jax lower")
"""
_PROGRAM: Final = """\
import json, time
import numpy, ml_dtypes
from benchmarks.graphs import GRAPHS
graph, size = GRAPHS[{graph!r}], {size}
times = {{}}
last = time.thread_time()
def end_stage(stage):
    global last
    now = time.thread_time()
    times[stage] = now - last
    last = now
{steps}
print(json.dumps(times))
"""


def measure_cold(
    pairs: Sequence[tuple[str, int]], *, rounds: int, on_progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure the stages of both sides, in turns.

    Args:
        pairs: names of graphs, and their sizes.
        rounds: the number of processes for each side.
        on_progress: called with a description of each measurement.

    Returns:
        The entries of "cold", as documented in `benchmarks/figures.py`.
    """
    entries: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        python = fresh_interpreter(cache)
        for name, size in pairs:
            builds = {side: partial(_build, python, name, size, side) for side in SIDES}
            for build in builds.values():  # fills the cache of compiled modules
                build()
            label = f"{name} {size:,}, cold: "
            times, _ = in_turns(
                builds,
                rounds=rounds,
                seconds=float("inf"),
                before_each=lambda side, label=label: on_progress(label + side),
            )
            ops = int(times.pop("ops")[0])
            ms = stage_spreads(times, {"total": STAGES})
            entry = {"graph": name, "size": size, "ops": ops}
            entries.append(entry | {"ms": ms, "ratios": _ratios(ms, "median")})
    return entries


def _build(
    python: Callable[..., subprocess.CompletedProcess[str]], graph: str, size: int, side: str
) -> dict[str, float]:
    """Return the seconds of each stage in a new process; for ours also the number of ops."""
    program = _PROGRAM.format(graph=graph, size=size, steps={"ours": _OURS, "jax": _JAX}[side])
    times: dict[str, float] = json.loads(python("-c", program).stdout)
    return times


def _ratios(ms: dict[str, dict[str, Any]], statistic: str) -> dict[str, float]:
    ours, theirs = ms["ours"], ms["jax"]
    return {
        f"{stage}, ours/jax": ours[stage][statistic] / theirs[stage][statistic] for stage in ours
    }


def cold_ratios(size: int, rounds: int) -> dict[str, float]:
    """Return the ratio of the least total times, for the larger graph at a size.

    Ratios of stages are left out. A garbage collection traverses everything imported and takes
    longer than a short stage, and it occurs in any stage.
    """
    graph, _ = PAIRS[-1]
    (entry,) = measure_cold([(graph, size)], rounds=rounds, on_progress=lambda _: None)
    total = "total, ours/jax"
    return {total: _ratios(entry["ms"], "least")[total]}
