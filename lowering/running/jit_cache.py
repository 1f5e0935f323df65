"""What a jitted function keeps: what it recorded for its arguments, and what XLA made of it.

It is found in three steps. jaxlib knows calls with jax.Arrays, and with copies of NumPy's, as it
does for jax.jit, and executes their programs by itself (`execution.tree_caller`); for each set of
static values there is such a function. Others are found by the structure of their arguments and
descriptions of the arrays. Where nothing is found, the arguments are looked at one by one, which
takes several times as long and says what is wrong with them, for their shapes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import jax

from builder.errors import BuilderError
from builder.graph.computation import XlaComputation
from lowering.running.executable import Executable

__all__ = ["MOST_KEPT", "Entry", "JitCacheInfo", "Kept", "Recording"]

MOST_KEPT: Final = 1024
"""How many computations a function keeps; of more the one that was looked for longest ago goes."""


class JitCacheInfo(NamedTuple):
    """What a jitted function has done and kept since it was made or its cache was cleared.

    Attributes:
        recorded: how often the function was recorded.
        compiled: how often XLA compiled what was recorded.
        kept: how many computations are kept.
        most_kept: how many are kept at most.
    """

    recorded: int
    compiled: int
    kept: int
    most_kept: int


class Recording(NamedTuple):
    """A function recorded for some arguments.

    Attributes:
        computation: one parameter for each leaf of the arguments; gives the leaves of the result,
            as a tuple unless it is one alone.
        results: the structure of the result.
        is_tuple: whether the computation gives a tuple of them.
    """

    computation: XlaComputation
    results: Any
    is_tuple: bool

    def nested(self, result: Any) -> Any:
        """What the computation gave, nested as the function's result."""
        return self.results.unflatten(result if self.is_tuple else (result,))


class Entry:
    """What is kept for some arguments.

    Attributes:
        lock: held by the thread that records or compiles it.
        recording: once it was recorded.
        executables: by device.
        executable: the one called last.
    """

    __slots__ = ("executable", "executables", "lock", "recording")

    def __init__(self) -> None:
        self.lock: Final = threading.Lock()
        self.recording: Recording | None = None
        self.executables: Final[dict[jax.Device, Executable]] = {}
        self.executable: Executable | None = None


class _Busy(threading.local):
    """The entries that this thread is recording or compiling."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []


_BUSY: Final = _Busy()


@contextmanager
def _alone(entry: Entry) -> Iterator[None]:
    """Keeps other threads from making the same at the same time.

    A thread that holds one of these locks does not wait for another, but makes the thing a second
    time if need be: two functions that call each other would wait for ever.
    """
    taken = entry.lock.acquire(blocking=not _BUSY.entries)
    _BUSY.entries.append(entry)
    try:
        yield
    finally:
        _BUSY.entries.pop()
        if taken:
            entry.lock.release()


class Kept:
    """What one function keeps.

    Attributes:
        name: the function's, for messages.
        quick: entries by what a call looks for first.
        callers: functions of jaxlib's, which know executables: by the key of static values, or by
            that and the structure of the arguments.
    """

    __slots__ = ("_compiled", "_entries", "_lock", "_recorded", "callers", "name", "quick")

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.quick: Final[dict[Any, Entry]] = {}
        self.callers: Final[dict[Any, Callable[..., Any]]] = {}
        self._entries: Final[dict[Any, Entry]] = {}
        self._lock: Final = threading.Lock()
        self._recorded = 0
        self._compiled = 0

    def info(self) -> JitCacheInfo:
        with self._lock:
            return JitCacheInfo(self._recorded, self._compiled, len(self._entries), MOST_KEPT)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.quick.clear()
            self.callers.clear()
            self._recorded = self._compiled = 0

    def find_quickly(self, found: Any, key: Any, entry: Entry) -> None:
        """Has the entry of `key` found by `found` from now on."""
        with self._lock:
            # As many as there are entries, but for what jax and NumPy tell apart, and XLA not.
            if len(self.quick) >= 4 * MOST_KEPT:
                self.quick.clear()
            if self._entries.get(key) is entry:
                self.quick[found] = entry

    def caller(self, key: Any, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """The function of jaxlib's for a key; made if there is none."""
        with self._lock:
            if len(self.callers) >= 4 * MOST_KEPT:  # of calls that were refused, or of XlaOps
                self.callers.clear()
            if key not in self.callers:
                self.callers[key] = make()
            return self.callers[key]

    def entry(self, key: Any) -> Entry:
        """The entry for a key, which becomes the youngest."""
        with self._lock:
            entry = self._entries.pop(key, None) or Entry()
            self._entries[key] = entry
            if len(self._entries) > MOST_KEPT:
                del self._entries[next(iter(self._entries))]
                self.quick.clear()
                self.callers.clear()
            return entry

    def recording(self, entry: Entry, make: Callable[[], tuple[Recording, bool]]) -> Recording:
        """What an entry holds; recorded if nothing is there.

        Args:
            entry: is given what is recorded.
            make: records, and says whether it may be kept.
        """
        if entry.recording is not None:
            return entry.recording
        if any(busy is entry for busy in _BUSY.entries):
            raise BuilderError(
                f"jit: {self.name} calls itself with arguments of the same shapes, and would "
                f"without end\n"
                f"fix: let a static argument say how often, or write a loop: xb.while_",
                op="jit",
            )
        with _alone(entry):
            if entry.recording is None:
                made, is_for_all = make()
                with self._lock:
                    self._recorded += 1
                if not is_for_all:
                    return made
                entry.recording = made
            return entry.recording

    def executable(
        self, entry: Entry, on: jax.Device, make: Callable[[Recording], Executable]
    ) -> Executable:
        """The executable for a device; compiled if there is none yet."""
        found = entry.executables.get(on)
        if found is None:
            with _alone(entry):
                found = entry.executables.get(on)
                if found is None:
                    assert entry.recording is not None  # it is recorded first
                    found = make(entry.recording)
                    with self._lock:
                        self._compiled += 1
                    entry.executables[on] = found
        return found
