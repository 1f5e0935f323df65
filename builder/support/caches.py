"""Interning of equal values, and caches of inferred shapes and attributes by signature.

A table of interned values has weak references to its objects, so unused objects are freed. Strong
references keep the latest objects alive, because a shape written as a literal, `f32[2, 3]`, is
usually created again.

The signature of an op is everything that its result shape and its attributes depend on: the operand
shapes and the arguments. A graph repeats few signatures many times, so each signature is inferred
once. A lookup takes constant time, because shapes are interned and hash by identity. Errors are not
cached.

Every cache is bounded, so its memory is bounded whatever shapes a process records. Evicted
signatures are inferred again. Their attributes are then a new mapping, equal to the old one but not
identical: code may use the identity of attributes to save time, but not for semantics.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from threading import RLock
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast
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
        added = ref(new)
        with self._lock:
            if len(self._references) >= self._swept_at:
                self._sweep()
            reference = self._references.setdefault(key, added)
            if reference is not added:
                value = reference()
                if value is not None:
                    return value
                self._references[key] = added
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


P = ParamSpec("P")
R = TypeVar("R")

MAX_SIGNATURES: Final = 8192
"""The number of signatures that one cache holds."""


def per_signature(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` with a cache of its results by its arguments, a signature.

    The arguments must be hashable. Numbers must be converted before, because 1, 1.0 and True are
    one key.
    """
    return cast("Callable[P, R]", lru_cache(maxsize=MAX_SIGNATURES)(function))


def integer_key(value: Any, depth: int = 3) -> Any:
    """Return integers in nested lists or tuples as nested tuples, or None for other values.

    The result is the cache key of the attribute that is made from the integers.
    """
    kind = type(value)
    if kind is int:
        return value
    if depth and (kind is list or kind is tuple):
        parts = tuple([integer_key(part, depth - 1) for part in value])
        return None if None in parts else parts
    return None


class SignatureTable(dict[Any, R]):
    """A bounded table of the results for each signature.

    The most frequent ops use it instead of `per_signature`, whose call is slower: read it with
    `get`, and fill it with `add`.
    """

    __slots__ = ()

    def add(self, signature: Any, result: R) -> R:
        """Store and return the result for a new signature; a full table is emptied first."""
        if len(self) >= MAX_SIGNATURES:
            self.clear()
        self[signature] = result
        return result
