"""Interning: equal values are one object while that object is in use.

A table has weak references to its objects, so unused objects are freed. Strong references keep the
latest objects alive, because a shape written as a literal, `f32[2, 3]`, is usually created again.
"""

from __future__ import annotations

import os
from collections import deque
from threading import RLock
from typing import Any, Final, Generic, TypeVar
from weakref import ref

T = TypeVar("T")

LATEST: Final = 8192
"""The number of most recently added objects that one table keeps alive."""


class InternTable(Generic[T]):
    """Maps each key to its only object; entries of freed objects are removed later.

    Args:
        latest: the number of most recently added objects that the table keeps alive.
    """

    __slots__ = ("_latest", "_lock", "_references", "_swept_at")

    def __init__(self, latest: int = LATEST) -> None:
        self._references: dict[Any, ref[T]] = {}
        self._latest: deque[T] = deque(maxlen=latest)
        self._swept_at = 2 * latest
        self._renew_lock()
        if hasattr(os, "register_at_fork"):
            # After a fork, the thread that has the lock may not exist in the child.
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        # Reentrant: garbage collection, and with it a finalizer that interns, may start at any
        # allocation.
        self._lock = RLock()

    def __len__(self) -> int:
        """The number of entries, including those of freed objects that are not removed yet."""
        return len(self._references)

    def find(self, key: Any) -> T | None:
        """Return the object of `key`, or None."""
        reference = self._references.get(key)
        return None if reference is None else reference()

    def intern(self, key: Any, new: T) -> T:
        """Return the object of `key`: `new`, unless another thread has added one."""
        with self._lock:
            value = self.find(key)
            if value is not None:
                return value
            if len(self._references) >= self._swept_at:
                self._sweep()
            self._references[key] = ref(new)
            self._latest.append(new)
        return new

    def _sweep(self) -> None:
        """Remove the entries of freed objects.

        A callback for each weak reference would cost more than all sweeps, because the table
        doubles between two sweeps.
        """
        # A copy, because a finalizer may intern during the iteration.
        for key, reference in self._references.copy().items():
            if reference() is None and self._references.get(key) is reference:
                del self._references[key]
        self._swept_at = 2 * max(len(self._references), self._latest.maxlen or 0)
