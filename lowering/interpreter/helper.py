"""The helper process of the reference interpreter: started on demand and replaced after a crash.

The interpreter aborts its process on unsupported operations, so it runs in a separate process. All
threads share the helper process; a fork of the program starts another helper process. The helper
process ends with the program, even if the program is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, Final

from lowering.errors import ExecutionError
from lowering.interpreter import worker

# Empty modules replace the packages, whose __init__ would import jax, which is slow.
_PROGRAM: Final = """
import sys, types
for name, folder in (("lowering", sys.argv[1]), ("lowering.interpreter", sys.argv[2])):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [folder]
from lowering.interpreter import worker
worker.serve()
"""


class HelperCrashError(Exception):
    """The helper process crashed during a request.

    Attributes:
        report: the helper's output to stderr.
        killed: whether SIGKILL, a signal that another process sent, ended the helper.
    """

    def __init__(self, report: str, killed: bool) -> None:
        super().__init__(report)
        self.report = report
        self.killed = killed


class HelperTimeoutError(Exception):
    """A request to the helper process exceeded its time limit; the process is killed."""


class _Helper:
    """A helper process, and the pipes to it."""

    def __init__(self) -> None:
        here = Path(__file__).resolve().parent
        # A file instead of a pipe, which could fill up.
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (it is open as long as the process)
        self.folder = tempfile.TemporaryDirectory(prefix="xlabuilder-probes-")
        stdin, self.requests = Pipe(duplex=False)
        self.answers, stdout = Pipe(duplex=False)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(here.parent), str(here)],
            stdin=stdin.fileno(),
            stdout=stdout.fileno(),
            stderr=self.stderr,
            # The same jaxlib and NumPy as here.
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "TF_CPP_MIN_LOG_LEVEL": "3",
            },
            start_new_session=True,  # so that Ctrl-C in the terminal does not end it
        )
        stdin.close()
        stdout.close()

    def ask(
        self, header: dict[str, Any], pieces: list[bytes | memoryview], timeout: float | None
    ) -> worker.Frame:
        """Send a request to the helper process, and return the answer.

        Raises:
            HelperCrashError: the helper process ended without an answer.
            HelperTimeoutError: there is no answer within `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout

        def read() -> bytes:
            if deadline is not None and not self.answers.poll(max(0, deadline - time.monotonic())):
                raise HelperTimeoutError
            return self.answers.recv_bytes()

        try:
            worker.send(self.requests.send_bytes, header, pieces)
            return worker.receive(read)
        except (BrokenPipeError, EOFError):
            status = self.process.wait()
            self.stderr.seek(0)
            report = self.stderr.read().decode(errors="replace")
            raise HelperCrashError(report, status == -signal.SIGKILL) from None

    def end(self) -> None:
        """Kill the helper process, if it still runs, and delete its folder."""
        if self.process.poll() is None:
            self.process.kill()
        self._close()
        self.process.wait()
        self.folder.cleanup()

    def detach(self) -> None:
        """Close the pipes in a fork of the program; the helper process keeps running."""
        self._close()
        self.process.returncode = 0  # not a child of the fork, which must not wait for it
        # The only way to keep the folder of a TemporaryDirectory, which the parent still uses.
        self.folder._finalizer.detach()  # type: ignore[attr-defined]  # not in typeshed

    def _close(self) -> None:
        for file in (self.requests, self.answers, self.stderr):
            file.close()


class _State:
    """The helper of this process, None if there is no helper, and the lock for requests."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.helper: _Helper | None = None


_STATE: Final = _State()


def ask(
    pieces: Sequence[bytes | memoryview], *, probing: bool, timeout: float | None
) -> tuple[list[str], list[bytes]]:
    """Call `lowering.interpreter.worker.evaluated` in the helper process.

    Args:
        pieces: the bytecode of a module, then the bytes of each argument's elements.
        probing: whether the module has probes.
        timeout: the time limit in seconds; None for no limit.

    Returns:
        The names of the executed probes, and the bytes of the elements: those of the results, then
        those that the probes report.

    Raises:
        HelperCrashError: the interpreter aborted. The next call starts another process.
        HelperTimeoutError: the interpreter exceeded `timeout`. The next call starts another
            process.
        ExecutionError: the interpreter refused the module.
    """
    request = list(pieces)
    with _STATE.lock:
        try:
            header, elements = _request(request, probing, timeout)
        except HelperCrashError as error:
            if not error.killed:
                raise
            # The request is not the cause: the process may have been killed before.
            header, elements = _request(request, probing, timeout)
    if "error" in header:
        raise ExecutionError(f"{header['error']}", op="interpret")
    return header["probes"], elements


def _request(
    pieces: list[bytes | memoryview], probing: bool, timeout: float | None
) -> tuple[dict[str, Any], list[bytes]]:
    """Send a request to the helper process; the caller holds the lock."""
    helper = _running()
    try:
        with _folder(helper, probing) as folder:
            return helper.ask({"folder": folder}, pieces, timeout)
    except BaseException:  # also KeyboardInterrupt: the next request would get the answer
        _STATE.helper = None
        helper.end()
        raise


def helper_id() -> int | None:
    """Return the process id of the helper process; None if no helper process runs."""
    helper = _STATE.helper
    return None if helper is None else helper.process.pid


@contextlib.contextmanager
def _folder(helper: _Helper, probing: bool) -> Iterator[str]:
    if not probing:
        yield ""
        return
    with tempfile.TemporaryDirectory(dir=helper.folder.name) as folder:
        yield folder


def _running() -> _Helper:
    """Return the helper; start it if it is not running. The caller holds the lock."""
    helper = _STATE.helper
    if helper is not None and helper.process.poll() is not None:  # killed from outside
        helper.end()
        helper = None
    if helper is None:
        _register_cleanup()
        helper = _STATE.helper = _Helper()
    return helper


def _end() -> None:
    helper, _STATE.helper = _STATE.helper, None
    if helper is not None:
        helper.end()


def _detach() -> None:
    """Forget the helper in a forked process: the helper belongs to the parent process."""
    helper, _STATE.helper = _STATE.helper, None
    _STATE.lock = threading.Lock()
    if helper is not None:
        helper.detach()


@functools.cache
def _register_cleanup() -> None:
    """Register `_end` to run at exit and `_detach` to run in forks; later calls do nothing."""
    atexit.register(_end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_detach)
