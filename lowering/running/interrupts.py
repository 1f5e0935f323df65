"""Defer interrupts that arrive while XLA compiles.

jaxlib 0.10 lets Python handle signals while it waits for the compiler. An exception raised by a
handler (KeyboardInterrupt) ends the wait, but the compiler continues in a thread of XLA. If the
process then exits, XLA's client is destroyed while that thread still uses it, and the process may
crash (status 139). Python can't wait for the thread, and compiling in another Python thread is
slower. jaxlib 0.12 handles signals only after XLA returns, and this module makes all versions of
jaxlib do so.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that are deferred: they request the end of the process."""


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
