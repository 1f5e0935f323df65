"""Run `benchmarks.peer`, and survive its crashes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

from benchmarks.timing import ContenderError

__all__ = ["PeerProcess"]

ROOT: Final = Path(__file__).resolve().parent.parent

SECONDS: Final = 300
"""The time after which a process without an answer is considered to hang."""


class PeerProcess:
    """The C++ XlaBuilder of another Python. After a crash it is started again.

    Attributes:
        python: the interpreter.
        versions: the versions of its Python and jaxlib.

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
        # Suppresses a log message of old jaxlib releases about missing TPUs.
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
            raise ContenderError(f"{self.python} {_describe_end(process, hung=not ready)}")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self.close()
            raise ContenderError(
                f"{self.python} did not answer in JSON, got {line.strip()[:60]!r}"
            ) from None
        if "error" in answer:
            raise ContenderError(f"{self.python}: {answer['error']}")
        return answer

    def measure(self, graph: str, size: int) -> dict[str, float]:
        """Return the seconds of each step.

        Raises:
            ContenderError: the process crashed, hung, or can't build this graph.
        """
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # after a crash; reading the answer raises
            process.stdin.write(json.dumps({"graph": graph, "size": size}) + "\n")
            process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process."""
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

    def __exit__(self, *_: object) -> None:
        self.close()


def _describe_end(process: subprocess.Popen[str], *, hung: bool) -> str:
    if hung:
        return f"did not answer in {SECONDS} seconds"
    code = process.returncode
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with status {code}"
