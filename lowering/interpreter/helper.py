"""The helper process: started when it is first needed, kept, and replaced when it dies.

The reference interpreter aborts the process it runs in when it meets what it lacks. So it runs in
one of its own. There is one for the program, whichever threads ask; a fork of the program gets its
own. It ends with the program, however that ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from lowering.errors import ExecutionError
from lowering.interpreter import frames

__all__ = ["HelperDiedError", "HelperTooSlowError", "ask", "helper_id"]

# The packages are stood in for: importing them would import jax, in a second and a half.
_PROGRAM: Final = """
import sys, types
for name, folder in (("lowering", sys.argv[1]), ("lowering.interpreter", sys.argv[2])):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [folder]
from lowering.interpreter import worker
worker.serve()
"""

_CHUNK: Final = 1 << 20


class HelperDiedError(Exception):
    """The helper process has died while it was asked.

    Attributes:
        report: what it said last.
        killed: whether somebody else has ended it.
    """

    def __init__(self, report: str, killed: bool) -> None:
        super().__init__(report)
        self.report = report
        self.killed = killed


class HelperTooSlowError(Exception):
    """The helper process took longer than it was given, and was ended."""


class _Helper:
    """A helper process, and the pipes to it."""

    def __init__(self) -> None:
        here = Path(__file__).resolve().parent
        # A file, not a pipe, which nobody would empty.
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self.folder = tempfile.TemporaryDirectory(prefix="xlabuilder-probes-")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(here.parent), str(here)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            bufsize=0,
            # The same jaxlib and NumPy as here; and no Ctrl-C of the terminal.
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "TF_CPP_MIN_LOG_LEVEL": "3",
            },
            start_new_session=True,
        )

    def ask(
        self, header: dict[str, Any], pieces: list[bytes | memoryview], timeout: float | None
    ) -> frames.Frame:
        """Its answer to a request.

        Raises:
            HelperDiedError, HelperTooSlowError: there was none.
        """
        process = self.process
        assert process.stdin is not None  # as it was started
        assert process.stdout is not None
        try:
            for piece in frames.encoded(header, pieces):
                view = memoryview(piece).cast("B")
                while view:
                    view = view[process.stdin.write(view) :]
            return frames.read(_taker(process.stdout.fileno(), timeout))
        except (BrokenPipeError, EOFError):
            process.wait()
            self.said.seek(0)
            report = self.said.read().decode(errors="replace")
            raise HelperDiedError(report, process.returncode == -signal.SIGKILL) from None

    def end(self) -> None:
        """Ends the process, if it has not ended, and takes away what it left."""
        process = self.process
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()
        self.said.close()
        self.folder.cleanup()

    def forget(self) -> None:
        """Closes the pipes, in a fork of the program, which must not be heard by the process."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.said.close()
        self.process.returncode = 0  # it is no child of the fork, which must not wait for it
        # The one way to have a TemporaryDirectory leave its folder, which the parent still uses.
        self.folder._finalizer.detach()  # type: ignore[attr-defined]  # unknown to typeshed


def _taker(source: int, timeout: float | None) -> Any:
    """A function that gives exactly so many bytes from a pipe."""
    end = None if timeout is None else time.monotonic() + timeout
    poll = select.poll()
    poll.register(source, select.POLLIN)

    def take(count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            if end is not None:
                left = max(0.0, end - time.monotonic())
                if not poll.poll(1000 * left):
                    raise HelperTooSlowError
            got = os.read(source, min(count - len(found), _CHUNK))
            if not got:
                raise EOFError
            found += got
        return bytes(found)

    return take


class _Kept:
    """The helper of this process, if there is one, and the lock of whoever asks it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.helper: _Helper | None = None


_KEPT: Final = _Kept()


def ask(
    pieces: Sequence[bytes | memoryview], *, probing: bool, timeout: float | None
) -> tuple[list[str], list[bytes]]:
    """What `lowering.interpreter.worker.evaluated` gives, in the helper process.

    Args:
        pieces: bytecode of a module; the elements of each argument.
        probing: whether it has probes.
        timeout: for how many seconds it may run; None for as long as it takes.

    Raises:
        HelperDiedError: the interpreter aborted. The next call has another process.
        HelperTooSlowError: it took longer than `timeout`; as above.
        ExecutionError: the interpreter refused the module.
    """
    frame_pieces = list(pieces)
    with _KEPT.lock:
        try:
            header, found = _asked(frame_pieces, probing, timeout)
        except HelperDiedError as error:
            if not error.killed:
                raise
            # Not of what it was asked: it may have been dead before.
            header, found = _asked(frame_pieces, probing, timeout)
    if "error" in header:
        raise ExecutionError(f"interpret: {header['error']}", op="interpret")
    return header["told"], found


def _asked(
    pieces: list[bytes | memoryview], probing: bool, timeout: float | None
) -> tuple[dict[str, Any], list[bytes]]:
    """The answer of the helper to a request. The lock is held."""
    helper = _running()
    try:
        with _folder(helper, probing) as folder:
            return helper.ask({"folder": folder}, pieces, timeout)
    except BaseException:  # a KeyboardInterrupt as well: its answer would be the next one's
        _KEPT.helper = None
        helper.end()
        raise


def helper_id() -> int | None:
    """The number of the helper process, None while there is none."""
    helper = _KEPT.helper
    return None if helper is None else helper.process.pid


@contextlib.contextmanager
def _folder(helper: _Helper, probing: bool) -> Iterator[str]:
    if not probing:
        yield ""
        return
    with tempfile.TemporaryDirectory(dir=helper.folder.name) as folder:
        yield folder


def _running() -> _Helper:
    """The helper, started if there is none. The lock is held."""
    helper = _KEPT.helper
    if helper is not None and helper.process.poll() is not None:  # somebody has killed it
        helper.end()
        helper = None
    if helper is None:
        _begin()
        helper = _KEPT.helper = _Helper()
    return helper


def _end() -> None:
    helper, _KEPT.helper = _KEPT.helper, None
    if helper is not None:
        helper.end()


def _forget() -> None:
    """In a fork: the helper is that of the program that it was forked from."""
    helper, _KEPT.helper = _KEPT.helper, None
    _KEPT.lock = threading.Lock()
    if helper is not None:
        helper.forget()


_BEGUN: Final = threading.Event()


def _begin() -> None:
    """What has to happen once, when the first helper is started."""
    if not _BEGUN.is_set():
        _BEGUN.set()
        atexit.register(_end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forget)
