"""Change production code at random places, and list the changes that no test detects.

    python -m tests.mutation --count 300 --seed 1
    python -m tests.mutation --count 20 builder/ops lowering/legalize/registry.py

A mutant is tested by the tests in the folder of its module's package (tests/builder/ops for
builder/ops), those of the module itself first, and by the tests that import the module. It is
killed by the first that fails, or by a time limit. Slow tests do not run.

The exit status is 1 if there are survivors. Some of them compute the same as the original.

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
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from rich.console import Console
from rich.progress import track

from tests.mutation.mutants import Mutant, mutants_of

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("builder", "lowering")
SECONDS: Final = 600
"""The limit of a mutant's tests. An endless loop is a death too."""

MOST_IMPORTERS: Final = 6
"""The number of test modules outside the folder that run because they import the module."""

EXAMPLES: Final = "tests/test_docstrings.py"
"""The tests of the examples in all modules."""

_LEFT_OUT: Final = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "site")


def tests_of(module: Path, root: Path) -> list[list[str]]:
    """Return the tests of a module, as lists of paths to run one after another."""
    parts = module.with_suffix("").parts
    own = sorted(root.glob(f"tests/{'/'.join(parts[:-1])}/**/test_{parts[-1]}*.py"))
    folder = root / "tests" / Path(*parts[:-1])
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


def is_killed(copy: Path, module: Path, mutant: Mutant) -> bool:
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
                return True
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(source, encoding="utf-8")
    return False


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

        def survives(item: tuple[Path, Mutant]) -> bool:
            copy = copies.get()
            try:
                return not is_killed(copy, *item)
            finally:
                copies.put(copy)

        survivors = 0
        outcomes = zip(mutants, pool.map(survives, mutants), strict=True)
        for (module, mutant), survived in track(outcomes, "mutants", len(mutants), console=console):
            if survived:
                survivors += 1
                console.print(described(module, mutant), highlight=False, markup=False)
    console.print(f"{len(mutants)} mutants, {survivors} survivors")
    return 1 if survivors else 0


def described(module: Path, mutant: Mutant) -> str:
    """Return the place of a mutant, the line before, and the change."""
    source = (ROOT / module).read_text(encoding="utf-8")
    line = source.splitlines()[mutant.line - 1].strip()
    replaced = source.encode()[mutant.start : mutant.end].decode()
    return f"{module}:{mutant.line}: {line}\n    {replaced!r} -> {mutant.replacement!r}"


if __name__ == "__main__":
    sys.exit(main())
