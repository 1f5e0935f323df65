"""Interning: equal values are one object while that object is in use.

A table has weak references to its objects, so unused shapes are freed. Strong references keep the
latest objects alive, because a shape written as a literal, `f32[2, 3]`, is usually created again.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Any, Generic, TypeVar
from weakref import ref

from builder.support.signatures import SignatureTable

T = TypeVar("T")


class _Reference(ref[T]):
    """A weak reference with the key of its object."""

    __slots__ = ("key",)

    key: Any


class InternTable(Generic[T]):
    """Maps each key to its only object."""

    __slots__ = ("_latest", "_lock", "_references")

    def __init__(self) -> None:
        self._references: dict[Any, _Reference[T]] = {}
        self._latest: SignatureTable[T] = SignatureTable()
        self._renew_lock()
        if hasattr(os, "register_at_fork"):
            # After a fork, the thread that has the lock may not exist in the child.
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        # Reentrant: garbage collection, and with it `_remove`, may start at any allocation.
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._references)

    def find(self, key: Any) -> T | None:
        """Return the object of `key`, or None."""
        value = self._latest.get(key)
        if value is None:
            reference = self._references.get(key)
            value = None if reference is None else reference()
            if value is not None:
                self._latest.add(key, value)
        return value

    def intern(self, key: Any, new: T) -> T:
        """Return the object of `key`: `new`, unless another thread has added one."""
        reference = _Reference(new, self._remove)
        reference.key = key
        with self._lock:
            value = self.find(key)
            if value is None:
                self._references[key] = reference
                value = self._latest.add(key, new)
        return value

    def _remove(self, reference: ref[T]) -> None:
        assert isinstance(reference, _Reference)
        with self._lock:
            # The key may have a new object since the old one was freed.
            if self._references.get(reference.key) is reference:
                del self._references[reference.key]
