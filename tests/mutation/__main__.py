"""Change production code at random places, and list the changes that no test detects.

    python -m tests.mutation --count 300 --seed 1
    python -m tests.mutation --count 20 builder/ops lowering/legalize/registry.py

A mutant is tested first by the tests with the name of its module (test_dot.py for dot.py), in any
folder; then by the tests in the folder of its package (tests/builder/ops for builder/ops), and by
the tests that import the module. It is killed by the first that fails. Slow tests do not run.

The mutants that are not killed are printed, and the exit status is 1 if there are any. Some
survivors compute the same as the original. A mutant that timed out has an endless loop, or its
tests take too long on this machine.

mutmut and cosmic-ray do not fit: mutmut puts a function between a definition and its callers, but
the decorator `op` reads the signature and the code of the definition; cosmic-ray runs one command
for the mutants of all modules.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal

from rich.console import Console
from rich.progress import track

from tests.mutation.mutants import Mutant, mutants_of

Outcome = Literal["killed", "survived", "timed out"]

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("builder", "lowering")
SECONDS: Final = 600
"""The limit of each round of a mutant's tests."""

MOST_IMPORTERS: Final = 6
"""The number of test modules outside the folder that run because they import the module."""

EXAMPLES: Final = "tests/test_docstrings.py"
"""The tests of the examples in all modules."""

_LEFT_OUT: Final = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "site")


def tests_of(module: Path, root: Path) -> list[list[str]]:
    """Return the tests of a module, as lists of paths to run one after another."""
    parts = module.with_suffix("").parts
    folder = root / "tests" / Path(*parts[:-1])
    own = sorted(
        (root / "tests").rglob(f"test_{parts[-1]}*.py"),
        key=lambda path: (folder not in path.parents, path),
    )
    while not any(folder.rglob("test_*.py")):
        folder = folder.parent
    name = ".".join(parts).removesuffix(".__init__")
    imports = re.compile(rf"\b{re.escape(name)}\b")
    others = [
        path
        for path in sorted((root / "tests").rglob("test_*.py"))
        if folder not in path.parents and imports.search(path.read_text(encoding="utf-8"))
    ]
    rounds: list[Sequence[Path]] = [own, [folder], [root / EXAMPLES, *others[:MOST_IMPORTERS]]]
    return [[str(path.relative_to(root)) for path in paths] for paths in rounds if paths]


def outcome(copy: Path, module: Path, mutant: Mutant) -> Outcome:
    """Test a mutant in a copy of the project."""
    path = copy / module
    source = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied_to(source), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        for paths in tests_of(module, copy):
            run = subprocess.run(
                [*command, "-m", "not slow", *paths],
                cwd=copy,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
            if run.returncode not in (0, 5):  # 5: all tests are slow
                return "killed"
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        path.write_text(source, encoding="utf-8")
    return "survived"


def chosen(paths: Iterable[Path], count: int, seed: int) -> list[tuple[Path, Mutant]]:
    """Return `count` random mutants of the modules at or in `paths`, relative to the project."""
    modules = {
        file.relative_to(ROOT)
        for path in paths
        for file in ([ROOT / path] if path.suffix else sorted((ROOT / path).rglob("*.py")))
    }
    every = [
        (module, mutant)
        for module in sorted(modules)
        for mutant in mutants_of((ROOT / module).read_text(encoding="utf-8"))
    ]
    return random.Random(seed).sample(every, min(count, len(every)))


def main() -> int:
    """Run the mutants and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("paths", type=Path, nargs="*", default=[Path(p) for p in PACKAGES])
    parser.add_argument("--count", type=int, default=300, help="the number of mutants (300)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of their choice (1)")
    parser.add_argument("--jobs", type=int, default=2, help="the number of processes (2)")
    options = parser.parse_args()
    console = Console()
    mutants = chosen(options.paths, options.count, options.seed)
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        for number in range(options.jobs):
            copies.put(Path(shutil.copytree(ROOT, Path(folder, str(number)), ignore=_LEFT_OUT)))

        def tested(item: tuple[Path, Mutant]) -> Outcome:
            copy = copies.get()
            try:
                return outcome(copy, *item)
            finally:
                copies.put(copy)

        counts = Counter[Outcome]()
        outcomes = zip(mutants, pool.map(tested, mutants), strict=True)
        for (module, mutant), result in track(outcomes, "mutants", len(mutants), console=console):
            counts[result] += 1
            if result != "killed":
                text = f"{result}: {described(module, mutant)}"
                console.print(text, highlight=False, markup=False)
    listed = ", ".join(f"{count} {result}" for result, count in counts.items())
    console.print(f"{len(mutants)} mutants: {listed}")
    return 0 if counts["killed"] == len(mutants) else 1


def described(module: Path, mutant: Mutant) -> str:
    """Return the place of a mutant, the line before, and the change."""
    source = (ROOT / module).read_text(encoding="utf-8")
    line = source.splitlines()[mutant.line - 1].strip()
    replaced = source.encode()[mutant.start : mutant.end].decode()
    return f"{module}:{mutant.line}: {line}\n    {replaced!r} -> {mutant.replacement!r}"


if __name__ == "__main__":
    sys.exit(main())
