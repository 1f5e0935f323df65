"""Caches of inferred shapes and attributes, by signature.

The signature of an op is everything that its result shape and its attributes depend on: the operand
shapes and the arguments. A graph repeats few signatures many times, so each signature is inferred
once. A lookup takes constant time, because shapes are interned and hash by identity. Errors are not
cached.

Every cache is bounded, so its memory is bounded whatever shapes a process records. Evicted
signatures are inferred again. Their attributes are then a new mapping, equal to the old one but not
identical: code may use the identity of attributes to save time, but not for semantics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

MAX_SIGNATURES: Final = 8192
"""The number of signatures that one cache holds."""


def per_signature(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` with a cache of its results; its arguments are a signature.

    Arguments must be hashable and in their normal form, because 1, 1.0 and True are equal keys.
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
