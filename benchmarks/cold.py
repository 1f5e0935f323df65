"""The first build in a fresh process, beside jax.jit: imports, recording, lowering.

Compiled Python modules are there already, as after an installation; everything else that a process
does once (imports, contexts, caches of shapes and of primitives) is part of the time. Times are
those that the processor worked for the main thread, as in `benchmarks.imports`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from benchmarks.imports import fresh_interpreter
from benchmarks.timing import in_turns, spread

__all__ = ["COLD", "GUARDED_SIZE", "PAIRS", "cold_ratios", "measure_cold"]

COLD: Final = "cold"
"""The name of these figures, and of their ratios."""

STAGES: Final = ("import", "record", "lower")
SIDES: Final = ("ours", "jax")

PAIRS: Final = (("layers", 10), ("transformer", 24))
"""A small graph and a large one."""

GUARDED_SIZE: Final = 6
"""The size of the larger one for ratios."""

# NumPy is imported before the clock starts: it is the user's, and the same for both.
_OURS: Final = """\
from benchmarks.languages import ours
import lowering
lowering.lower
ends("ours import")
computation = ours.record(graph, size)
ends("ours record")
module = lowering.lower(computation)
ends("ours lower")
from benchmarks.contenders import counts
times["ops"] = counts(computation)["ops"]
"""
_JAX: Final = """\
from benchmarks.languages import jax_lax
import jax
ends("jax import")
function, arguments = jax_lax.record(graph, size)
traced = jax.jit(function).trace(*arguments)
ends("jax record")
traced.lower()
ends("jax lower")
"""
_PROGRAM: Final = """\
import json, time
import numpy, ml_dtypes
from benchmarks.graphs import GRAPHS
graph, size = GRAPHS[{graph!r}], {size}
times = {{}}
last = time.thread_time()
def ends(stage):
    global last
    now = time.thread_time()
    times[stage] = now - last
    last = now
{steps}
print(json.dumps(times))
"""


def measure_cold(
    pairs: Sequence[tuple[str, int]], *, rounds: int, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """For each graph and size the milliseconds of every stage, for both, in turns.

    Args:
        pairs: names of graphs, and sizes.
        rounds: how many processes for each side.
        tell: is told what is measured now.

    Returns:
        What `benchmarks/figures.py` says of "cold".
    """
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        python = fresh_interpreter(cache)
        for name, size in pairs:
            builds = {side: partial(_build, python, name, size, side) for side in SIDES}
            ops = builds["ours"]()["ops"]  # these two compile Python's modules
            builds["jax"]()
            times, _ = in_turns(
                builds,
                rounds=rounds,
                seconds=float("inf"),
                before_each=partial(_told, tell, f"{name} {size:,}, cold"),
            )
            found.append({"graph": name, "size": size, "ops": int(ops), **_figures(times)})
    return found


def _told(tell: Callable[[str], None], what: str, side: str) -> None:
    tell(f"{what}: {side}")


def _build(
    python: Callable[..., subprocess.CompletedProcess[str]], graph: str, size: int, side: str
) -> dict[str, float]:
    """The seconds of each stage in a new process; of ours also the number of ops."""
    program = _PROGRAM.format(graph=graph, size=size, steps={"ours": _OURS, "jax": _JAX}[side])
    found: dict[str, float] = json.loads(python("-c", program).stdout)
    return found


def _figures(times: dict[str, list[float]]) -> dict[str, Any]:
    """The spreads and the ratios of the medians."""
    milliseconds: dict[str, dict[str, Any]] = {}
    for side in SIDES:
        columns = {stage: [v * 1e3 for v in times[f"{side} {stage}"]] for stage in STAGES}
        columns["total"] = [sum(parts) for parts in zip(*columns.values(), strict=True)]
        milliseconds[side] = {stage: spread(values) for stage, values in columns.items()}
    return {"ms": milliseconds, "ratios": _ratios(milliseconds, "median")}


def _ratios(milliseconds: dict[str, dict[str, Any]], of: str) -> dict[str, float]:
    ours, theirs = milliseconds["ours"], milliseconds["jax"]
    return {f"{stage}, ours/jax": ours[stage][of] / theirs[stage][of] for stage in ours}


def cold_ratios(size: int, rounds: int) -> dict[str, float]:
    """The ratio of the least times of the whole, for the larger graph at a size.

    A collection of garbage walks over all that was imported, and takes longer than a short stage;
    into which stage it falls is chance, so stages are not compared.
    """
    graph, _ = PAIRS[-1]
    (entry,) = measure_cold([(graph, size)], rounds=rounds, tell=lambda _: None)
    total = "total, ours/jax"
    return {total: _ratios(entry["ms"], "least")[total]}
