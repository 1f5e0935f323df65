"""Attributes of other libraries' objects, whose errors contain what to write instead.

`__getattr__` would do the same, but on Python 3.11 a class with this method reads all attributes
more slowly, and recording an op reads many. So a class gets a descriptor for each foreign name.
Python itself suggests similar names for misspelled ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import getattr_static
from typing import Any, Final

UNKNOWN_NAMES: Final[dict[str, Callable[[str], AttributeError]]] = {}
"""Returns the error for an unknown name, for each package below `builder.unknown_names`."""


class ForeignName:
    """A name that instances of a class do not have: reading it raises an AttributeError."""

    __slots__ = ("_error", "_name")

    def __init__(self, name: str, error: Callable[[type, str], AttributeError]) -> None:
        self._name = name
        self._error = error

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        raise self._error(type(instance) if owner is None else owner, self._name)


def add_foreign_names(
    cls: type, names: Iterable[str], error: Callable[[type, str], AttributeError]
) -> None:
    """Make reads of the attributes `names` raise ``error(class, name)``; `dir` does not list them.

    Names that the class has are left alone.
    """
    for name in names:
        # Not hasattr, which would call the descriptor of a name that is listed twice.
        if not any(name in vars(base) for base in cls.__mro__):
            setattr(cls, name, ForeignName(name, error))

    def names_of(self: object) -> list[str]:
        # A subclass may have a name that is foreign to `cls`.
        owner = type(self)
        return [
            name
            for name in object.__dir__(self)
            if not isinstance(getattr_static(owner, name, None), ForeignName)
        ]

    cls.__dir__ = names_of  # type: ignore[method-assign,assignment]  # read by autocompletion
