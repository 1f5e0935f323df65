"""Talks to `benchmarks.peer`, and survives it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from benchmarks.timing import ContenderError

__all__ = ["PeerProcess"]

ROOT: Final = Path(__file__).resolve().parent.parent

SECONDS: Final = 300
"""How long an answer may take before the process counts as one that hangs."""


class PeerProcess:
    """The C++ XlaBuilder of another Python. It is started again after it died.

    Attributes:
        python: the interpreter.
        versions: of Python and jaxlib, as the process says.

    Raises:
        ContenderError: the interpreter can't be run, or has no XlaBuilder.
    """

    def __init__(self, python: str) -> None:
        self.python = python
        self._process: subprocess.Popen[str] | None = None
        try:
            self.versions: dict[str, str] = self._start()
        except ContenderError:
            self.close()
            raise

    def _start(self) -> dict[str, str]:
        # The old jaxlib logs that it finds no TPU.
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
        try:
            self._process = subprocess.Popen(
                [self.python, "-m", "benchmarks.peer"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
                env=environment,
                text=True,
            )
        except OSError as error:
            raise ContenderError(f"{self.python} can't be run: {error.strerror}") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        line = process.stdout.readline() if ready else ""
        if not line:
            self.close()
            raise ContenderError(f"{self.python} {_how_it_ended(process, hung=not ready)}")
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            self.close()
            raise ContenderError(
                f"{self.python} is no Python that answers: {line.strip()[:60]!r}"
            ) from None
        if "error" in found:
            raise ContenderError(f"{self.python}: {found['error']}")
        return found

    def measure(self, graph: str, size: int) -> dict[str, float]:
        """The seconds of each step.

        Raises:
            ContenderError: it died, hung, or can't do this graph.
        """
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died; reading the answer says how
            process.stdin.write(json.dumps({"graph": graph, "size": size}) + "\n")
            process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _how_it_ended(process: subprocess.Popen[str], *, hung: bool) -> str:
    if hung:
        return f"gave no answer in {SECONDS} seconds"
    code = process.returncode
    if code is not None and code < 0:
        return f"died of {signal.Signals(-code).name}"
    return f"ended with status {code}"
