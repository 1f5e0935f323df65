"""Run test files in another process, which a program may end or block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from builder.errors import XlaError
from lowering.running.worker_process import WorkerProcess
from lowering.test_files.running import TestOutcome, run_test


def outcomes(paths: Iterable[str], device: str | None, seconds: float) -> Iterator[TestOutcome]:
    """Run files in a process, which is started anew if a program ended it or blocks.

    Args:
        paths: the files.
        device: see `run_test`.
        seconds: the time limit for a file.

    Returns:
        The outcomes of each file. A file that can't be read, that ends the process or that exceeds
        the time limit has one outcome, with the reason.
    """
    with WorkerProcess(answer, seconds) as worker:
        for path in paths:
            found, reason = worker.ask([path, device])
            if reason:
                yield TestOutcome(path, Path(path).stem, False, reason, 0, 0.0)
            else:
                yield from (TestOutcome(**fields) for fields in found)


def answer(request: list[Any]) -> list[dict[str, Any]]:
    """Run a file in the worker; return the outcomes."""
    path, device = request
    try:
        found = run_test(path, device)
    except XlaError as error:
        message = f"{type(error).__name__}: {error}".replace("\n", " ")
        found = [TestOutcome(path, Path(path).stem, False, message, 0, 0.0)]
    return [asdict(outcome) for outcome in found]
