"""What arguments can be: functions, and the value of a required argument that a call omits."""

from __future__ import annotations


class NotAFunction:
    """The base of classes with a `__call__` that only raises an error with what to write."""

    __slots__ = ()


def is_function(value: object) -> bool:
    """Return whether `value` can be a function of XlaOps; a class or a computation can't."""
    return callable(value) and not isinstance(value, (type, NotAFunction))


class Missing:
    """The base of the values of omitted arguments; a check refuses them, like other values."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "no argument"

    @property
    def fix(self) -> str:
        """What to write, for messages."""
        return ""
