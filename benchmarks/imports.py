"""Measure `import builder` after `import numpy`, and `import lowering` after `import jax`.

Each import runs in a fresh process. Compiled modules are cached in a temporary folder, independent
of the environment. A first process of each kind fills the cache and is not measured.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.timing import spread

__all__ = ["IMPORTS", "fresh_interpreter", "import_ratios", "import_script", "measure_imports"]

ROOT: Final = Path(__file__).resolve().parent.parent

IMPORTS: Final = {"builder": "numpy", "lowering": "jax"}
"""The packages, and the package imported before each."""

_MEASURE: Final = """
import time
def clocks():
    return time.perf_counter(), time.thread_time()
start = clocks()
import {base}
between = clocks()
import {package}
{use}
end = clocks()
print(*(e - b for b, e in zip(between, end)), *(e - b for b, e in zip(start, between)))
import sys
assert "{package}" != "builder" or not {{"jax", "jaxlib"}} & set(sys.modules)
"""


def import_script(package: str, base: str) -> str:
    """Return a program that prints elapsed and CPU seconds of an import, then of its base."""
    # `lowering` loads its modules on the first access of an attribute.
    use = "lowering.compile" if package == "lowering" else ""
    return _MEASURE.format(package=package, base=base, use=use)


def fresh_interpreter(cache: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs Python in a new process, in the root folder of the project."""
    # NumPy's threads would wait in a loop, which is CPU time of the process.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )

    return run


def measure_imports(
    rounds: int, on_progress: Callable[[str], None], *, modules: bool = False
) -> dict[str, Any]:
    """Measure each import, without that of the package imported before.

    Args:
        rounds: the number of processes for each package.
        on_progress: called with a description of each measurement.
        modules: whether to list the slowest modules.

    Returns:
        For each package: "ms", the elapsed milliseconds; "cpu_ms", the CPU time, which is shorter
        on a busy machine; "over", the package imported before, and "over_ms", its elapsed time;
        with `modules`, "modules": pairs of milliseconds and a name.
    """
    columns: dict[str, list[list[float]]] = {package: [] for package in IMPORTS}
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        python = fresh_interpreter(cache)
        for number in range(rounds + 1):
            for package, base in IMPORTS.items():
                on_progress(f"import {package}: {number}/{rounds}")
                printed = python("-c", import_script(package, base)).stdout
                if number:
                    columns[package].append([float(seconds) * 1e3 for seconds in printed.split()])
        for package, rows in columns.items():
            elapsed, cpu, base_elapsed, _ = map(spread, zip(*rows, strict=True))
            figures[package] = {
                "ms": elapsed,
                "cpu_ms": cpu,
                "over": IMPORTS[package],
                "over_ms": base_elapsed,
            }
            if modules:
                figures[package]["modules"] = _slowest_modules(python, package, 12)
    return figures


def import_ratios(rounds: int) -> dict[str, float]:
    """Return the least CPU time of each import, relative to that of the package before it."""
    figures = measure_imports(rounds, lambda _: None)
    return {
        f"{package}/{entry['over']}": entry["cpu_ms"]["least"] / entry["over_ms"]["least"]
        for package, entry in figures.items()
    }


def _slowest_modules(
    python: Callable[..., subprocess.CompletedProcess[str]], package: str, count: int
) -> list[tuple[float, str]]:
    """Return the modules whose own code takes longest, in milliseconds, without the base's."""
    base = IMPORTS[package]
    trace = python("-X", "importtime", "-c", f"import {base}; import {package}").stderr
    rows = re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", trace, re.MULTILINE)
    names = [name for _, name in rows]
    beyond = rows[names.index(base) + 1 :]
    return sorted(((int(us) / 1e3, name) for us, name in beyond), reverse=True)[:count]
