"""WorkerProcess: a process that answers requests, and that a request may end or block."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

_PROGRAM: Final = """
import importlib, sys
sys.path[:] = {path!r}
from lowering.running.worker_process import serve
serve(getattr(importlib.import_module({module!r}), {function!r}))
"""


class WorkerProcess:
    """A process that calls a function for each request; it is started again after it ended.

    Requests and answers are values of JSON. The processes end with the block of a ``with``.
    """

    def __init__(self, function: Callable[[Any], Any], seconds: float) -> None:
        """Create a worker; the process starts with the first request.

        Args:
            function: a top-level function of a module.
            seconds: the time limit for a request, including the start of the process.
        """
        root = str(Path(__file__).resolve().parents[2])
        self._code = _PROGRAM.format(
            path=[*sys.path, root], module=function.__module__, function=function.__name__
        )
        self._seconds = seconds
        self._child: _Child | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, request: Any) -> tuple[Any, str]:
        """Return the answer, and "" or why there is none: the process ended, or blocks."""
        child = self._child = self._child or _Child(self._code)
        answer, reason = child.ask(request, self._seconds)
        if reason:
            self.end()
        return answer, reason

    def end(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.end()
            self._child = None


class _Child:
    def __init__(self, code: str) -> None:
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

    def ask(self, request: Any, seconds: float) -> tuple[Any, str]:
        """Return the answer, or None and the reason."""
        assert self._process.stdin is not None  # opened as a pipe
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return None, f"no answer within {seconds:g} seconds"
        except OSError:
            line = ""
        if not line:
            return None, f"the process ended with status {self._process.wait()}"
        return json.loads(line), ""

    def end(self) -> None:
        """End the process, and close its pipes."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None  # opened as a pipe
        with contextlib.suppress(OSError):  # a request that was not read
            self._process.stdin.close()
        self._listener.join()


def serve(function: Callable[[Any], Any]) -> None:
    """Answer the requests that are read from stdin by the results of a function."""
    # What a program prints must not be among the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        print(json.dumps(function(json.loads(line))), file=answers, flush=True)
