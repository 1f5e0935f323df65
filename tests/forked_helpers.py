"""Run helper processes as forks of one process, which has imported the modules that they need.

A new interpreter would need half a second to import them.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

IMPORTED = (
    *("lowering.jaxlib_api.artifacts", "lowering.jaxlib_api.hlo_conversion"),
    "lowering.reading.module_reader",
)
"""Modules without jax."""


class ForkedHelpers:
    """In the place of `subprocess` in `lowering/reading/helper_process.py`."""

    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None

    def run(
        self,
        command: Sequence[str],
        *,
        input: bytes,
        timeout: float,
        env: Mapping[str, str],
        capture_output: bool,
        check: bool,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program, given by the command line of a new interpreter, in a fork."""
        _, _, _, program, *arguments = command  # the interpreter, -I and -c
        with tempfile.TemporaryDirectory() as folder:
            names = [str(Path(folder, name)) for name in ("stdin", "stdout", "stderr")]
            Path(names[0]).write_bytes(input)
            request = [program, arguments, dict(env), names, timeout]
            with self._lock:
                status = self._answer(json.dumps(request), env)
            if status == -signal.SIGALRM:
                raise subprocess.TimeoutExpired(command, timeout)
            outputs = [Path(name).read_bytes() for name in names[1:]]
            return subprocess.CompletedProcess(command, status, *outputs)

    def _answer(self, request: str, env: Mapping[str, str]) -> int:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=dict(env),
                text=True,
            )
            atexit.register(self._process.communicate)  # at the end of its input it ends
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(request, file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


def run(
    program: str, arguments: Sequence[str], env: Mapping[str, str], files: Any, timeout: float
) -> None:
    """Run a program in this process, and end the process."""
    for descriptor, (name, flags) in enumerate(
        zip(files, (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT), strict=True)
    ):
        os.dup2(os.open(name, flags), descriptor)
    sys.stdin = os.fdopen(0)  # the old one may have read the next request
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["-c", *arguments]
    signal.setitimer(signal.ITIMER_REAL, timeout)  # ends the process, wherever it is
    status = 0
    try:
        exec(program, {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    sys.path[:] = sys.argv[1:]
    for name in IMPORTED:
        __import__(name)
    for request in sys.stdin:
        process = os.fork()
        if process == 0:
            run(*json.loads(request))
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
