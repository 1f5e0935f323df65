"""Interning: equal values as one object, for as long as that object is in use.

A table refers to its objects weakly, so a process that uses ever new shapes does not grow. The
latest ones are kept alive: a shape written as a literal, `f32[2, 3]`, is usually written again.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Any, Generic, TypeVar
from weakref import ref

from builder.support.signatures import SignatureTable

__all__ = ["InternTable"]

T = TypeVar("T")


class _Reference(ref[T]):
    """A weak reference that knows the key of its object."""

    __slots__ = ("key",)

    key: Any


class InternTable(Generic[T]):
    """The one object of each key."""

    __slots__ = ("_latest", "_lock", "_references")

    def __init__(self) -> None:
        self._references: dict[Any, _Reference[T]] = {}
        self._latest: SignatureTable[T] = SignatureTable()
        self._renew_lock()
        if hasattr(os, "register_at_fork"):
            # Another thread of the parent may hold the lock, and does not exist in the child.
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        # Reentrant: garbage collection, and with it `_remove`, may start at any allocation.
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._references)

    def find(self, key: Any) -> T | None:
        """Return the object of `key`, or None if there is none at the moment."""
        found = self._latest.get(key)
        if found is None:
            reference = self._references.get(key)
            found = None if reference is None else reference()
            if found is not None:
                self._latest.add(key, found)
        return found

    def intern(self, key: Any, made: T) -> T:
        """Return the object of `key`, which is `made` unless another thread was faster."""
        reference = _Reference(made, self._remove)
        reference.key = key
        with self._lock:
            found = self.find(key)
            if found is None:
                self._references[key] = reference
                found = self._latest.add(key, made)
        return found

    def _remove(self, reference: ref[T]) -> None:
        assert isinstance(reference, _Reference)
        with self._lock:
            # A new object of the same key may have come since the old one died.
            if self._references.get(reference.key) is reference:
                del self._references[reference.key]
