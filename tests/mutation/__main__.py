"""Change production code at random places, and list the changes that no test detects.

    python -m tests.mutation --count 300 --seed 1
    python -m tests.mutation --count 20 builder/ops lowering/legalize/registry.py

First all fast tests run once, and coverage records which tests execute which line. A mutant is
tested by those that execute its line: the tests with the name of its module (test_dot.py for
dot.py), those in the folder of its package (tests/builder/ops for builder/ops), then others, at
most 300. It is killed by the first that fails. A line that is executed only when its module is
imported is tested by the two former, and by the examples in all modules. Slow tests do not run.

The mutants that are not killed are printed, and the exit status is 1 if there are any. Some
survivors compute the same as the original. A mutant that timed out has an endless loop, or its
tests take too long on this machine.

mutmut and cosmic-ray do not fit: mutmut puts a function between a definition and its callers, but
the decorator `op` reads the signature and the code of the definition; cosmic-ray runs one command
for the mutants of all modules.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal

from coverage import CoverageData
from rich.console import Console
from rich.progress import track

from tests.mutation.mutants import Mutant, mutants_of

Outcome = Literal["killed", "survived", "timed out"]

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("builder", "lowering")
SECONDS: Final = 600
"""The limit of each round of a mutant's tests."""

FIRST: Final = 30
"""The number of tests of the first round, which kills most mutants."""

MOST: Final = 300
"""The number of tests of all rounds."""

EVERY_OP: Final = ("tests/test_docstrings.py", "tests/test_every_op.py")
"""The tests of the examples in all modules."""

_LEFT_OUT: Final = shutil.ignore_patterns(
    *(".git", ".venv*", ".*_cache", ".hypothesis", ".coverage*"),
    *("__pycache__", "*.egg-info", "site", "build", "dist"),
)

Rounds = list[list[str]]
"""Tests to run one round after another, as arguments of pytest."""


def measured(jobs: int, file: Path) -> None:
    """Run the fast tests, and write to a file which of them execute which line."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "--dist", "worksteal"]
    packages = [f"--cov={package}" for package in PACKAGES]
    run = subprocess.run(
        [*command, *packages, "--cov-context=test", "--cov-report="],
        cwd=ROOT,
        env={**os.environ, "COVERAGE_FILE": str(file)},
        check=False,
    )
    if run.returncode:
        file.unlink(missing_ok=True)
        sys.exit("tests fail without a mutant: repair them first")


class Coverage:
    """Which tests execute which line, from the file that `measured` wrote."""

    def __init__(self, file: Path) -> None:
        self.data = CoverageData(str(file))
        self.data.read()

    def tests(self, module: Path, mutant: Mutant) -> list[str]:
        """Return the tests that execute the line of a mutant, as pytest calls them."""
        contexts = self.data.contexts_by_lineno(str(ROOT / module))
        # The line of a statement of several lines may be its first.
        line = next((n for n in range(mutant.line, 0, -1) if n in contexts), 0)
        return sorted({name.rpartition("|")[0] for name in contexts.get(line, ()) if name})


def files_of(module: Path, root: Path) -> tuple[list[str], str]:
    """Return the test files with the name of a module, and the folder of its package's tests."""
    parts = module.with_suffix("").parts
    folder = root / "tests" / Path(*parts[:-1])
    while not any(folder.rglob("test_*.py")):
        folder = folder.parent
    own = sorted(
        (root / "tests").rglob(f"test_{parts[-1]}*.py"),
        key=lambda path: (folder not in path.parents, path),
    )
    return [str(path.relative_to(root)) for path in own], str(folder.relative_to(root))


def rounds_of(module: Path, executing: Sequence[str], root: Path) -> Rounds:
    """Return the tests of a mutant.

    Args:
        module: its module.
        executing: the tests that execute its line.
        root: the folder of the project.
    """
    own, folder = files_of(module, root)
    if not executing:
        return [tests for tests in (own, [folder], list(EVERY_OP)) if tests]
    by_file: dict[str, list[str]] = {}
    for test in executing:
        by_file.setdefault(test.partition("::")[0], []).append(test)

    def place(file: str) -> tuple[bool, bool, str]:
        return file not in own, not file.startswith(f"{folder}/"), file

    near = [test for file in sorted(by_file, key=place) if file in own for test in by_file[file]]
    # One test of each file in turn, since tests of one file are similar.
    files = [by_file[file] for file in sorted(by_file, key=place) if file not in own]
    others = [test for turn in zip_longest(*files) for test in turn if test is not None]
    tests = [*near, *others][:MOST]
    return [tests[:FIRST], tests[FIRST:]] if len(tests) > FIRST else [tests]


def outcome(copy: Path, module: Path, mutant: Mutant, rounds: Rounds) -> Outcome:
    """Test a mutant in a copy of the project."""
    path = copy / module
    source = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied_to(source), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        for tests in rounds:
            (copy / "tests.txt").write_text("\n".join(tests), encoding="utf-8")
            run = subprocess.run(
                [*command, "-m", "not slow", "@tests.txt"],
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
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", type=Path, nargs="*", default=[Path(p) for p in PACKAGES])
    parser.add_argument("--count", type=int, default=300, help="the number of mutants (300)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of their choice (1)")
    parser.add_argument("--jobs", type=int, default=2, help="the number of processes (2)")
    parser.add_argument("--coverage", type=Path, help="the file to write, or to read if it exists")
    options = parser.parse_args()
    console = Console()
    mutants = chosen(options.paths, options.count, options.seed)
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        file = options.coverage or Path(folder, "coverage")
        if not file.exists():
            measured(options.jobs, file)
        coverage = Coverage(file)
        for number in range(options.jobs):
            copies.put(Path(shutil.copytree(ROOT, Path(folder, str(number)), ignore=_LEFT_OUT)))

        rounds = [rounds_of(m, coverage.tests(m, mutant), ROOT) for m, mutant in mutants]

        def tested(number: int) -> Outcome:
            copy = copies.get()
            try:
                return outcome(copy, *mutants[number], rounds[number])
            finally:
                copies.put(copy)

        counts = Counter[Outcome]()
        outcomes = zip(mutants, pool.map(tested, range(len(mutants))), strict=True)
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
