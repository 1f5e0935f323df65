"""How long `import builder` takes beyond `import numpy`, in fresh processes.

    python benchmarks/import_time.py [--rounds N] [--modules]

Compiled modules are kept in a temporary folder, whatever the environment says of them; a first
process, which fills it, is not counted. With --modules, the modules that take longest are listed,
by `python -X importtime`.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET_MS = 50

MEASURE = """
import time
import numpy
began, used = time.perf_counter(), time.process_time()
import builder
print(time.perf_counter() - began, time.process_time() - used)
import sys
assert "jax" not in sys.modules and "jaxlib" not in sys.modules
"""


class Interpreter:
    """Runs fresh interpreters in the root of the project, which they import from."""

    def __init__(self, cache: str) -> None:
        self.environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )


def measure(python: Interpreter, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds that `import builder` took after `import numpy`, once a round.

    Returns:
        Those that passed, and those that the processor worked, which are less where the machine
        is busy with other things.
    """
    python("-c", MEASURE)
    rows = [python("-c", MEASURE).stdout.split() for _ in range(rounds)]
    passed, worked = ([float(row[i]) * 1e3 for row in rows] for i in (0, 1))
    return passed, worked


def slowest_modules(python: Interpreter, count: int) -> list[tuple[float, str]]:
    """The modules whose own code takes longest to run, in milliseconds, NumPy's left out."""
    trace = python("-X", "importtime", "-c", "import numpy; import builder").stderr
    rows = re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", trace, re.MULTILINE)
    names = [name for _, name in rows]
    ours = rows[names.index("numpy") + 1 :]
    return sorted(((int(own) / 1e3, name) for own, name in ours), reverse=True)[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--modules", action="store_true", help="list the modules that take longest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        python = Interpreter(cache)
        passed, worked = measure(python, options.rounds)
        slowest = slowest_modules(python, 12) if options.modules else []
    print(
        f"import builder: {statistics.median(passed):.1f} ms, of which the processor worked "
        f"{statistics.median(worked):.1f} ms; medians of {options.rounds} processes "
        f"(budget {BUDGET_MS} ms)"
    )
    for milliseconds, name in slowest:
        print(f"{milliseconds:8.2f} ms  {name}")


if __name__ == "__main__":
    main()
