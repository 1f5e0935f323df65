"""How much memory an op takes, in a process of its own.

    python -m benchmarks.memory GRAPH SIZE [ours|jax]

prints a line of JSON. Ours: what Python allocated for the recorded ops (tracemalloc), how much the
process grew by the recording and the module together, and its peak. jax: how much it grew by the
trace and the module, and its peak. Growth is of the resident memory, so that what MLIR allocates
counts too, after malloc has been asked to give back what is free.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any, Final

__all__ = ["measure_memory"]

ROOT: Final = Path(__file__).resolve().parent.parent


def measure_memory(graph: str, size: int) -> dict[str, dict[str, int]]:
    """Bytes, for "ours" and "jax": "grown", "peak" and, of ours, "recorded".

    Each is measured in a fresh process; both run at the same time.
    """
    processes = {
        who: subprocess.Popen(
            [sys.executable, "-m", "benchmarks.memory", graph, str(size), who],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for who in ("ours", "jax")
    }
    printed = {who: process.communicate()[0] for who, process in processes.items()}
    for who, process in processes.items():
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, f"memory of {graph}: {who}")
    return {who: json.loads(text) for who, text in printed.items()}


def _resident() -> int:
    """Bytes of memory that the process holds; 0 where the system doesn't say."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # another system than Linux
        return 0
    return pages * resource.getpagesize()


def _peak() -> int:
    # Linux begins the maximum that getrusage tells with that of the process which started this
    # one; the high-water mark of /proc is of this program alone.
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _ours(graph: Any, size: int) -> dict[str, int]:
    import lowering
    from benchmarks.languages import ours

    # What the first graph of a process brings about (the MLIR context, imports) is no op's.
    lowering.lower(ours.record(graph, graph.sizes[0]))
    before = _resident()
    computation = ours.record(graph, size)
    module = lowering.lower(computation)
    grown, peak = _resident() - before, _peak()
    del computation, module
    # After the peak was read: tracemalloc's own notes take memory too.
    gc.collect()
    tracemalloc.start()
    kept = ours.record(graph, size)
    gc.collect()
    recorded, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return {"recorded": recorded, "grown": grown, "peak": peak}


def _jax(graph: Any, size: int) -> dict[str, int]:
    import jax

    from benchmarks.languages import jax_lax

    function, arguments = jax_lax.record(graph, graph.sizes[0])
    jax.jit(function).trace(*arguments).lower()
    before = _resident()
    function, arguments = jax_lax.record(graph, size)
    traced = jax.jit(function).trace(*arguments)
    lowered = traced.lower()
    grown, peak = _resident() - before, _peak()
    del traced, lowered
    return {"grown": grown, "peak": peak}


def main() -> None:
    """Measures what the command line names."""
    from benchmarks.graphs import GRAPHS

    name, size, who = sys.argv[1:]
    measure = {"ours": _ours, "jax": _jax}[who]
    print(json.dumps(measure(GRAPHS[name], int(size))))


if __name__ == "__main__":
    main()
