"""The base class of objects whose missing attributes get an error with what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.support.extensions import extension


class ExplainsAttributes:
    """Base class of objects whose errors for names of other libraries contain what to write.

    `builder.unknown_names` has the names. Python calls `__getattr__` only for attributes that do
    not exist. On Python 3.11 a class with this method also reads the other attributes more slowly.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers would accept every attribute

        def __getattr__(self, name):
            # Names with an underscore are looked up by protocols, such as `_repr_png_`.
            error = None
            if not name.startswith("_"):
                error = extension("builder.unknown_names", "missing_attribute", type(self), name)
            if error is None:
                return object.__getattribute__(self, name)  # raises the error of this attribute
            raise error
