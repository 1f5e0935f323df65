"""Pauses of Python's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector.

    For code that creates many objects and retains nearly all of them: the collector would visit
    them again and again, without finding any to free.

    All threads share the collector. If two threads pause it, it runs again when the first of them
    ends its pause; a collector that was disabled before stays disabled.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
