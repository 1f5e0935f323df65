"""Run test files in another process, which a program may end or block."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from builder.errors import XlaError
from lowering.test_files.running import TestOutcome, run_test

_CHILD: Final = """
import sys
sys.path[:] = {path!r}
from lowering.test_files.isolated import serve
serve({device!r})
"""


def outcomes(paths: Iterable[str], device: str | None, seconds: float) -> Iterator[TestOutcome]:
    """Run files in a process, which is started anew if a program ended it or blocks.

    Args:
        paths: the files.
        device: see `run_test`.
        seconds: the time limit for a file.

    Returns:
        The outcomes of each file. A file that can't be read, that ends the process or that exceeds
        the time limit has one outcome, which says so.
    """
    child: _Child | None = None
    try:
        for path in paths:
            child = child or _Child(device)
            found = child.ask(path, seconds)
            if isinstance(found, str):
                yield TestOutcome(path, Path(path).stem, False, found, 0, 0.0)
                child.end()
                child = None
            else:
                yield from found
    finally:
        if child is not None:
            child.end()


class _Child:
    """A process that reads paths and answers each with a line."""

    def __init__(self, device: str | None) -> None:
        root = str(Path(__file__).resolve().parents[2])
        code = _CHILD.format(path=[*sys.path, root], device=device)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # XLA's last messages
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None  # opened as a pipe
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def ask(self, path: str, seconds: float) -> list[TestOutcome] | str:
        """Return the outcomes of a file, or why there are none."""
        assert self._process.stdin is not None  # opened as a pipe
        try:
            print(json.dumps(path), file=self._process.stdin, flush=True)
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return f"no answer within {seconds:g} seconds"
        except OSError:
            line = ""
        if not line:
            return f"the process ended with status {self._process.wait()}"
        return [TestOutcome(**fields) for fields in json.loads(line)]

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None  # opened as a pipe
        with contextlib.suppress(OSError):  # a path that was not read
            self._process.stdin.close()
        self._listener.join()


def serve(device: str | None) -> None:
    """Run the files whose names are read from stdin; write the outcomes of each as a line."""
    # What a program prints must not be among the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        path: Any = json.loads(line)
        try:
            found = run_test(path, device)
        except XlaError as error:
            message = f"{type(error).__name__}: {error}".replace("\n", " ")
            found = [TestOutcome(path, Path(path).stem, False, message, 0, 0.0)]
        print(json.dumps([asdict(outcome) for outcome in found]), file=answers, flush=True)
