"""What counts as a function that an op, `jit` or a decorator can call."""

from __future__ import annotations


class NotAFunction:
    """The base of classes with a `__call__` that only raises an error with what to write."""

    __slots__ = ()


def is_function(value: object) -> bool:
    """Return whether `value` can be a function of XlaOps; a class or a computation can't."""
    return callable(value) and not isinstance(value, (type, NotAFunction))
