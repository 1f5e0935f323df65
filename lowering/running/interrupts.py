"""Interrupts that come while XLA compiles.

jaxlib 0.10 lets Python answer signals meanwhile. What the handler raises (KeyboardInterrupt) ends
the waiting but not the compiling, which goes on in a thread of XLA's; and a process that ends then
takes XLA's client away from that thread, and may die of it (status 139). Nothing in Python can wait
for the thread, and compiling in a thread of our own takes 0.5 ms more. jaxlib 0.12 lets Python
answer when XLA comes back, and so it is done here for all versions.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

__all__ = ["answered_afterwards"]

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask a process to end."""


@contextmanager
def answered_afterwards() -> Iterator[None]:
    """Has Python's handlers of Ctrl-C and SIGTERM called when the block has ended.

    A second signal is answered at once, for those who can't wait. It takes 10 to 40 us.
    """
    # Signals are answered by the main thread alone.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: dict[int, Any] = {}
    came: list[tuple[int, FrameType | None]] = []
    has_ended = False

    def note(number: int, frame: FrameType | None) -> None:
        if not came and not has_ended:
            came.append((number, frame))
            return
        first = came.copy()
        came.clear()
        handlers[number](number, frame)
        came.extend(first)  # nothing was raised

    try:
        for asked in _ENDING:
            handler = signal.getsignal(asked)
            # What is no function is the system's: the process ends at once, or nothing happens.
            if callable(handler):
                handlers[asked] = handler
                signal.signal(asked, note)
        yield
    finally:
        has_ended = True
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in came:
            handlers[number](number, frame)
