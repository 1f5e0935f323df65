"""Report long compilations, and interrupts that wait for them, to the person who waits.

XLA reports no progress, so the report of a long compilation is the elapsed time. It changes in
place, and is removed at the end. XLA can't be interrupted either, so Ctrl-C waits for it
(`deferred_interrupts`), and a line reports that.

A thread writes the reports while the caller waits for XLA, and ends with the compilation. There are
no reports and no thread if stderr is not a terminal and the program is not in a notebook.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from builder.check import flag
from lowering.running.displays import Display, find_display

VARIABLE: Final = "XLABUILDER_PROGRESS"
"""The environment variable that turns reports off if `show_progress` is not called."""

_DELAY: Final = 5.0
"""The number of seconds after which a compilation is reported."""

_MAX_NAME_LENGTH: Final = 60
_SIGNALS: Final[dict[int, str]] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}

_SHOWN: list[bool] = []
"""One element: whether there are reports. Empty until the environment is read."""

_REPORTED: Final = threading.Lock()
"""The lock of the compilation that is reported: threads that compile would overwrite each other."""


def show_progress(show: bool = True) -> None:
    """Turn the reports of long compilations on, as they are by default, or off.

    While XLA compiles a program for more than 5 seconds, a terminal or a notebook shows the elapsed
    time. XLA can't be interrupted, so Ctrl-C waits for it, and a line reports that. Nothing is
    written if stderr is not a terminal and the program is not in a notebook. If this function is
    not called, XLABUILDER_PROGRESS=0 in the environment turns the reports off.

    Args:
        show: whether there are reports.

    Raises:
        ShapeInferenceError: `show` is neither True nor False.

    Example:
        >>> import lowering
        >>> lowering.show_progress(False)
        >>> lowering.show_progress(True)
    """
    _SHOWN[:] = [flag("show_progress", "show", show)]


def _is_shown() -> bool:
    if not _SHOWN:
        _SHOWN.append(os.environ.get(VARIABLE) != "0")
    return _SHOWN[0]


@contextlib.contextmanager
def reported(name: str, deferred: Sequence[Any]) -> Iterator[None]:
    """Report the compilation in this block if it takes long.

    Args:
        name: the name of the program.
        deferred: the deferred signals, from `deferred_interrupts`.
    """
    display = find_display() if _is_shown() else None
    if display is None:
        yield
        return
    report = _Report(name, display, deferred)
    try:
        yield
    finally:
        report.end()


class _Report:
    """The report of one compilation, written by a thread."""

    def __init__(self, name: str, display: Display, deferred: Sequence[Any]) -> None:
        is_long = len(name) > _MAX_NAME_LENGTH
        self._name = f"{name[: _MAX_NAME_LENGTH - 3]}..." if is_long else name
        self._display = display
        self._deferred = deferred
        self._start = time.monotonic()
        self._has_signal = False
        self._has_ended = False
        # The end of the compilation and signals wake the thread through a socket. Signals do so
        # even if jaxlib calls Python's handlers only after XLA has returned.
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._is_main = threading.current_thread() is threading.main_thread()
        self._other_socket = -1
        if self._is_main:
            number = self._sender.fileno()
            self._other_socket = signal.set_wakeup_fd(number, warn_on_full_buffer=False)
        # IPython determines the cell of an output by the context.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._write,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Remove the report, and end the thread."""
        try:
            self._has_ended = True
            if self._is_main:
                signal.set_wakeup_fd(self._other_socket)
        finally:
            self._sender.close()
            self._thread.join()
            self._receiver.close()

    def _write(self) -> None:
        """Write the report until the compilation ends."""
        is_reported = False
        next_time = self._start + _DELAY
        try:
            while not self._has_ended:
                self._receiver.settimeout(max(0.001, next_time - time.monotonic()))
                try:
                    signals = self._receiver.recv(64)
                except TimeoutError:
                    next_time += 1
                    is_reported = is_reported or _REPORTED.acquire(blocking=False)
                    if is_reported:
                        self._display.update(f"compiling {self._name}: {self._elapsed()}")
                else:
                    self._handle(signals)
            self._display.clear()
        except (OSError, ValueError):
            pass  # the terminal was closed; the compilation continues
        finally:
            if is_reported:
                _REPORTED.release()

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._start), 60)
        return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"

    def _handle(self, signals: bytes) -> None:
        """Pass signals on to the previous wakeup socket, and report the first that is deferred."""
        if self._other_socket != -1:
            with contextlib.suppress(OSError):
                os.write(self._other_socket, signals)
        name = next((_SIGNALS[number] for number in signals if number in _SIGNALS), None)
        if name is None or self._has_signal:
            return
        self._has_signal = True
        # If jaxlib calls handlers while XLA compiles, the signal is deferred soon, and a second
        # signal has an effect. Otherwise both have an effect only afterwards.
        for _ in range(20):
            if self._deferred or self._has_ended:
                break
            time.sleep(0.05)
        if not self._has_ended:
            end = self._display.way_out
            if self._deferred:
                end = f"a second {name} stops waiting and may crash the process"
            self._display.line(f"{name} waits until XLA has compiled {self._name}; {end}")
