"""The cache of a jitted function: its recordings for arguments, and their executables.

A call is looked up in up to three steps. First, jaxlib looks up calls with jax.Arrays or copies of
NumPy arrays, as it does for jax.jit, and executes their programs without Python
(`execution.tree_caller`). Each set of static values has its own jaxlib function. Second, a call is
looked up by the structure of its arguments and by descriptions of the arrays. The third and slowest
look-up determines the shape of each argument, and reports invalid arguments.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import jax

from builder.errors import BuilderError, error_of
from lowering.running.jit_recording import Recording
from lowering.running.program import CompiledProgram

MOST_KEPT: Final = 1024
"""The maximum number of cached recordings of one function.

When it is exceeded, the least recently used recording is removed.
"""


class JitCacheInfo(NamedTuple):
    """Statistics of a jitted function since it was created or its cache was cleared.

    Attributes:
        recorded: how often the function was recorded.
        compiled: how often XLA compiled a recording.
        kept: the number of recordings in the cache.
        most_kept: the limit of `kept`.
    """

    recorded: int
    compiled: int
    kept: int
    most_kept: int


@dataclass(slots=True, eq=False)
class Entry:
    """The cached recording and executables for some arguments.

    Attributes:
        key: the key of the entry in the cache.
        lock: acquired by the thread that records or compiles.
        recording: the recording; None before the function was recorded.
        executables: the executables by device, or by the first of several devices.
        executable: the Executable that was called last, or an OpenExecutable; None for several
            devices.
        of_tracers: the recording as a jax function; None before a call with tracers of jax.
    """

    key: Any
    lock: threading.Lock = field(default_factory=threading.Lock)
    recording: Recording | None = None
    executables: dict[jax.Device, Any] = field(default_factory=dict)
    executable: Any = None
    of_tracers: Callable[..., Any] | None = None


class _InProgress(threading.local):
    """The entries that this thread is recording or compiling."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []


_IN_PROGRESS: Final = _InProgress()


@contextmanager
def _locked(entry: Entry) -> Iterator[None]:
    """Prevent several threads from recording or compiling an entry at the same time.

    A thread that has acquired the lock of one entry does not wait for another lock, so that two
    functions that call each other can't deadlock; the thread may record or compile a second time
    instead.
    """
    acquired = entry.lock.acquire(blocking=not _IN_PROGRESS.entries)
    _IN_PROGRESS.entries.append(entry)
    try:
        yield
    finally:
        _IN_PROGRESS.entries.pop()
        if acquired:
            entry.lock.release()


class JitCache:
    """The cache of one function.

    Attributes:
        name: the function's name, for messages.
        quick: entries by the key of the second look-up: the structure of the arguments, the key of
            the static values, and descriptions of the arrays.
        callers: jaxlib's functions, by the key of static values, or by that key and the structure
            of the arguments.
    """

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

    def recorded(self) -> list[tuple[Recording, list[jax.Device]]]:
        """Return the recordings, and the first device of each executable compiled of them."""
        with self._lock:
            entries = list(self._entries.values())
        return [(e.recording, list(e.executables)) for e in entries if e.recording is not None]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.quick.clear()
            self.callers.clear()
            self._recorded = self._compiled = 0

    def add_quick(self, key: Any, entry: Entry) -> None:
        """Add an entry to `quick` under `key`, unless the cache has removed the entry."""
        with self._lock:
            # jax and NumPy distinguish more arrays than XLA, so there may be more of these keys
            # than entries.
            if len(self.quick) >= 4 * MOST_KEPT:
                self.quick.clear()
            if self._entries.get(entry.key) is entry:
                self.quick[key] = entry

    def caller(self, key: Any, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """Return jaxlib's function for a key; `make` creates it on the first use of the key."""
        with self._lock:
            if len(self.callers) >= 4 * MOST_KEPT:  # refused calls and calls with XlaOps add some
                self.callers.clear()
            if key not in self.callers:
                self.callers[key] = make()
            return self.callers[key]

    def entry(self, key: Any) -> Entry:
        """Return the entry for a key, and mark it as the most recently used."""
        with self._lock:
            entry = self._entries.pop(key, None) or Entry(key)
            self._entries[key] = entry
            if len(self._entries) > MOST_KEPT:
                del self._entries[next(iter(self._entries))]
                self.quick.clear()
                self.callers.clear()
            return entry

    def recording(self, entry: Entry, make: Callable[[], tuple[Recording, bool]]) -> Recording:
        """Return the recording of an entry; record the function if there is none yet.

        Args:
            entry: the entry, to which a new recording is added.
            make: records the function; returns the recording, and whether it may be reused.
        """
        if entry.recording is not None:
            return entry.recording
        if any(other is entry for other in _IN_PROGRESS.entries):
            rule = f"{self.name} calls itself endlessly with arguments of the same shapes"
            fix = "pass the depth as a static argument, or write a loop: xb.while_"
            raise error_of(BuilderError, "jit", rule, fix)
        with _locked(entry):
            if entry.recording is None:
                recording, is_reusable = make()
                with self._lock:
                    self._recorded += 1
                if not is_reusable:
                    return recording
                entry.recording = recording
            return entry.recording

    def _count_compilation(self) -> None:
        with self._lock:
            self._compiled += 1

    def executable(self, entry: Entry, device: jax.Device, make: Callable[[Recording], Any]) -> Any:
        """Return the executable of an entry for a device; `make` compiles it on the first use."""
        executable = entry.executables.get(device)
        if executable is None:
            with _locked(entry):
                executable = entry.executables.get(device)
                if executable is None:
                    assert entry.recording is not None  # recorded first
                    executable = make(entry.recording)
                    if isinstance(executable, CompiledProgram):
                        self._count_compilation()
                    else:  # compiled for the sizes of each call
                        executable._on_compile = self._count_compilation
                    entry.executables[device] = executable
        return executable
