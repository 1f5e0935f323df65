"""Measure the memory of a graph in a separate process.

    python -m benchmarks.memory GRAPH SIZE (ours|jax)

This prints a line of JSON. For ours: the bytes that Python allocated for the recorded ops
(tracemalloc), the growth of the process by the recording and the module, and its peak. For jax: the
growth by the trace and the module, and the peak. Growth is that of the resident memory after
malloc has released its free blocks, so that it includes MLIR's allocations.
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
    """Return the bytes for "ours" and "jax": "grown", "peak" and, for ours, "recorded".

    Each is measured in a fresh process. Both run at the same time.
    """
    processes = {
        side: subprocess.Popen(
            [sys.executable, "-m", "benchmarks.memory", graph, str(size), side],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for side in ("ours", "jax")
    }
    printed = {side: process.communicate()[0] for side, process in processes.items()}
    for side, process in processes.items():
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, f"memory of {graph}: {side}")
    return {side: json.loads(text) for side, text in printed.items()}


def _resident() -> int:
    """Return the resident memory of the process in bytes; 0 where it is not available."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # not Linux
        return 0
    return pages * resource.getpagesize()


def _peak() -> int:
    # On Linux the maximum of getrusage includes that of the parent process; the high-water mark in
    # /proc does not.
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _ours(graph: Any, size: int) -> dict[str, int]:
    import lowering
    from benchmarks.languages import ours

    # Excludes one-time allocations of a process: imports, the MLIR context.
    lowering.lower(ours.record(graph, graph.sizes[0]))
    before = _resident()
    computation = ours.record(graph, size)
    module = lowering.lower(computation)
    grown, peak = _resident() - before, _peak()
    del computation, module
    # After the peak is read, because tracemalloc itself takes memory.
    gc.collect()
    tracemalloc.start()
    computation = ours.record(graph, size)
    gc.collect()
    recorded, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del computation
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
    """Measure the graph and side that the command line names."""
    from benchmarks.graphs import GRAPHS

    name, size, side = sys.argv[1:]
    measure = {"ours": _ours, "jax": _jax}[side]
    print(json.dumps(measure(GRAPHS[name], int(size))))


if __name__ == "__main__":
    main()
