"""Python's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused(*, retained: bool = False) -> Iterator[None]:
    """Pause Python's garbage collector.

    Use this around code that creates many objects and retains nearly all of them: the collector
    would traverse them repeatedly and free none.

    Args:
        retained: whether the new objects exist as long as the process, such as those of modules.
            All objects are then moved to the oldest generation, so that the collector does not
            traverse the new ones when it resumes.

    All threads share the collector. If two threads pause the collector, the thread that paused it
    first also enables it again. A collector that was disabled before stays disabled; one that
    another thread disables in the meantime is enabled.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if retained and not gc.get_freeze_count():  # else `unfreeze` would undo another freeze
                gc.freeze()
                gc.unfreeze()  # moves all objects to the oldest generation
            gc.enable()
