"""Report long compilations to the person who waits, and defer interrupts while XLA compiles.

XLA reports no progress, so the report of a long compilation is the elapsed time. It changes in
place, and is removed at the end. A thread writes the reports while the caller waits for XLA, and
ends with the compilation. There are no reports and no thread if stderr is not a terminal and the
program is not in a notebook.

XLA can't be interrupted, so Ctrl-C waits for it (`deferred_interrupts`), and a line reports that.
jaxlib 0.10 lets Python handle signals while it waits for the compiler. An exception raised by a
handler (KeyboardInterrupt) ends the wait, but the compiler continues in a thread of XLA. If the
process then exits, XLA's client is destroyed while that thread still uses it, and the process may
crash (status 139). Python can't wait for the thread, and compiling in another Python thread is
slower. jaxlib 0.12 handles signals only after XLA returns, and this module makes all versions of
jaxlib do so.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Protocol, TextIO

from builder.checking import flag
from builder.graph.calls import explained

_SIGNALS: Final[dict[int, str]] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
"""The signals that are deferred, because they request the end of the process; their names."""


@contextmanager
def deferred_interrupts() -> Iterator[Sequence[Any]]:
    """Defer Python's handlers of SIGINT (Ctrl-C) and SIGTERM until the block ends.

    The handler of a second signal runs at once. The value of the block is a list that contains the
    first signal once it is deferred.
    """
    pending: list[tuple[int, FrameType | None]] = []
    # Only the main thread handles signals.
    if threading.current_thread() is not threading.main_thread():
        yield pending
        return
    handlers: dict[int, Any] = {}
    has_ended = False

    def defer(number: int, frame: FrameType | None) -> None:
        if not pending and not has_ended:
            pending.append((number, frame))
            return
        first = pending.copy()
        pending.clear()
        handlers[number](number, frame)
        pending.extend(first)  # the handler did not raise

    try:
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            # Other handlers are the system's: they end the process at once, or do nothing.
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, defer)
        yield pending
    finally:
        has_ended = True
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        for signum, frame in pending:
            handlers[signum](signum, frame)


class Display(Protocol):
    """A place for a text that changes, and for lines that remain.

    A method raises OSError or ValueError if the terminal no longer exists.

    Attributes:
        way_out: how to end a process that does not react to Ctrl-C.
    """

    way_out: str

    def update(self, text: str) -> None:
        """Write the text, or replace it."""

    def line(self, text: str) -> None:
        """Write a line that remains, and remove the text."""

    def clear(self) -> None:
        """Remove the text."""


class _Terminal:
    """A terminal. The text is in the line of the cursor."""

    way_out = ("Ctrl-Break" if os.name == "nt" else "Ctrl-\\") + " ends the process at once"

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._length = 0

    def update(self, text: str) -> None:
        text = text[: self._width() - 1]  # a longer text would continue in the next line
        self._replace(text)
        self._length = len(text)

    def line(self, text: str) -> None:
        self._length += len("^C")  # the terminal writes this at the cursor
        self._replace(f"{text}\n")
        self._length = 0

    def clear(self) -> None:
        if self._length:
            self._replace("")
            self._length = 0

    def _replace(self, text: str) -> None:
        # Spaces instead of control codes, which not all terminals support.
        blank = " " * min(self._length, self._width() - 1)
        self._stream.write(f"\r{blank}\r{text}" if blank else f"\r{text}")
        self._stream.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            return 80


class _Notebook:
    """A notebook. The text is an output of the cell."""

    way_out = "restarting the kernel ends the process at once"

    def __init__(self, ipython: Any) -> None:
        self._ipython = ipython
        self._handle: Any = None

    def update(self, text: str) -> None:
        content = {"text/plain": text}
        if self._handle is None:
            self._handle = self._ipython.display.display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def line(self, text: str) -> None:
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._handle is not None:
            self.update("")


def find_display() -> Display | None:
    """Return the notebook, or the terminal that stderr is; None if there is neither."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and hasattr(ipython.get_ipython(), "kernel"):
        return _Notebook(ipython)
    stream = sys.stderr
    try:
        return _Terminal(stream) if stream is not None and stream.isatty() else None
    except (AttributeError, ValueError):  # an object without this method, or a closed file
        return None


VARIABLE: Final = "XLABUILDER_PROGRESS"
"""The environment variable that turns reports off if `show_progress` is not called."""

_DELAY: Final = 5.0
"""The number of seconds after which a compilation is reported."""

_MAX_NAME_LENGTH: Final = 60

_SHOWN: list[bool] = []
"""One element: whether there are reports. Empty until the environment is read."""

_REPORTED: Final = threading.Lock()
"""The lock of the compilation that is reported: threads that compile would overwrite each other."""


@explained
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


@contextmanager
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
