"""How long `import builder` takes beyond `import numpy`, and `import lowering` beyond `import jax`.

Measured in fresh processes. Compiled modules are kept in a temporary folder, whatever the
environment says of them; a first process of each kind, which fills it, is not counted.
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

__all__ = ["IMPORTS", "fresh_interpreter", "import_script", "measure_imports"]

ROOT: Final = Path(__file__).resolve().parent.parent

IMPORTS: Final = {"builder": "numpy", "lowering": "jax"}
"""What is imported, and what must be there before it."""

# Of the main thread alone: NumPy has begun others, which the processor is still busy with.
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
    """Prints the seconds that passed and those that the processor worked, then the base's."""
    # `lowering` loads itself when something of it is asked for.
    use = "lowering.compile" if package == "lowering" else ""
    return _MEASURE.format(package=package, base=base, use=use)


def fresh_interpreter(cache: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs fresh interpreters in the root of the project, which they import from."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
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
    rounds: int, tell: Callable[[str], None], *, modules: bool = False
) -> dict[str, Any]:
    """Milliseconds of each import, those of the package it builds on left out.

    Args:
        rounds: how many processes for each package.
        tell: is told what is measured now.
        modules: whether to find out which modules take longest.

    Returns:
        For each package "ms", that passed; "cpu_ms", that the processor worked, which are less
        where the machine is busy with other things; "over", what was imported before, and
        "over_ms", that this took; "modules", if asked for: pairs of milliseconds and a name.
    """
    found: dict[str, Any] = {}
    columns: dict[str, list[list[float]]] = {package: [] for package in IMPORTS}
    with tempfile.TemporaryDirectory() as cache:
        python = fresh_interpreter(cache)
        for number in range(rounds + 1):
            for package, base in IMPORTS.items():
                tell(f"import {package}: {number}/{rounds}")
                printed = python("-c", import_script(package, base)).stdout
                if number:
                    columns[package].append([float(word) * 1e3 for word in printed.split()])
        for package, rows in columns.items():
            found[package] = {
                "ms": spread([row[0] for row in rows]),
                "cpu_ms": spread([row[1] for row in rows]),
                "over": IMPORTS[package],
                "over_ms": spread([row[2] for row in rows]),
            }
            if modules:
                found[package]["modules"] = _slowest_modules(python, package, 12)
    return found


def _slowest_modules(
    python: Callable[..., subprocess.CompletedProcess[str]], package: str, count: int
) -> list[tuple[float, str]]:
    """The modules whose own code takes longest to run, in milliseconds, the base's left out."""
    base = IMPORTS[package]
    trace = python("-X", "importtime", "-c", f"import {base}; import {package}").stderr
    rows = re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", trace, re.MULTILINE)
    names = [name for _, name in rows]
    beyond = rows[names.index(base) + 1 :]
    return sorted(((int(own) / 1e3, name) for own, name in beyond), reverse=True)[:count]
