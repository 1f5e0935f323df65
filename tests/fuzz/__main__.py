"""Damage files for a given time, and save those that reveal a defect of the library.

    python -m tests.fuzz --seconds 600 --seed 1 --samples FOLDER
    python -m tests.fuzz --seconds 3600 --run

With --run, the files are modules of one operation and one element type each (tests/type_grid), and
the damaged modules are also compiled and run.

The exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tests.fuzz import seeds
from tests.fuzz.mutations import mutated
from tests.fuzz.workers import Outcome, Worker, keep


def main() -> int:
    """Run the fuzzer and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="the duration (600)")
    parser.add_argument("--seed", type=int, default=None, help="the seed; by default the time")
    parser.add_argument("--samples", type=Path, help="a folder with more files to damage")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-findings"), help="the folder for the files"
    )
    parser.add_argument("--again", type=Path, nargs="+", help="try these files unchanged")
    parser.add_argument("--run", action="store_true", help="also compile and run the modules")
    options = parser.parse_args()
    console = Console()
    if options.again:
        return _again(options.again, console, runs=options.run)
    seed = options.seed if options.seed is not None else int(time.time())
    files = seeds.of_one_operation() if options.run else [*seeds.handful(), *seeds.examples()]
    if options.samples is not None:
        files += seeds.samples(options.samples)
    console.print(f"seed {seed}, {len(files)} files to damage")
    counted: Counter[str] = Counter()
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    end = time.monotonic() + options.seconds
    with Worker(runs=options.run) as worker, bar:
        task = bar.add_task("", total=options.seconds)
        for number in itertools.count():
            left = end - time.monotonic()
            if left <= 0:
                break
            data = mutated(random.Random(f"{seed}-{number}"), files)
            outcome = worker.outcome(data)
            counted[outcome.kind] += 1
            if outcome.is_defect and counted[outcome.kind] <= 5:
                path = keep(options.keep, data, outcome)
                bar.console.print(f"{outcome.kind}: {path}", soft_wrap=True, highlight=False)
            if number % 20 == 0:
                what = f"{number + 1} inputs, {len(_defects(counted))} kinds of defects"
                bar.update(task, completed=options.seconds - left, description=what)
    for kind, count in counted.most_common():
        console.print(f"{count:8} {kind}", highlight=False)
    return 1 if _defects(counted) else 0


def _defects(counted: Counter[str]) -> list[str]:
    return [kind for kind in counted if Outcome(kind, "").is_defect]


def _again(paths: list[Path], console: Console, *, runs: bool) -> int:
    has_defect = False
    with Worker(runs=runs) as worker:
        for path in paths:
            outcome = worker.outcome(path.read_bytes())
            has_defect |= outcome.is_defect
            console.print(f"{path}: {outcome.kind}\n{outcome.message}", highlight=False)
    return 1 if has_defect else 0


if __name__ == "__main__":
    sys.exit(main())
