"""Bundles: immutable values with named fields, and an ``__init__`` that converts its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import FrozenInstanceError, dataclass
from operator import attrgetter
from typing import Any, ClassVar, Never, TypeVar, dataclass_transform

from builder.support.frames import without_internal_frames


class Bundle:
    """The base of bundles, which has all methods but ``__init__``.

    A frozen dataclass would compile these methods for each class, an eighth of the import of
    builder.
    """

    __slots__ = ()
    # Set by dataclass.
    __dataclass_fields__: ClassVar[dict[str, Any]]
    __match_args__: ClassVar[tuple[str, ...]]

    _values: ClassVar[Any]  # a function that returns the fields of a bundle

    def __repr__(self) -> str:
        fields = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__]
        return f"{type(self).__qualname__}({', '.join(fields)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        values = self._values
        equal: bool = values(self) == values(other)
        return equal

    def __hash__(self) -> int:
        return hash(self._values(self))

    def __setattr__(self, name: str, value: object) -> Never:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> Never:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    # For copies and pickles, which set attributes otherwise.

    def __getstate__(self) -> list[Any]:
        return [getattr(self, name) for name in self.__match_args__]

    def __setstate__(self, state: Iterable[Any]) -> None:
        set_fields(self, *state)


B = TypeVar("B", bound=Bundle)


@dataclass_transform(frozen_default=True)
def bundle(cls: type[B]) -> type[B]:
    """Make a class with annotated fields an immutable dataclass with slots.

    Its ``__init__``, which calls `set_fields`, may accept more types than those of the fields. Its
    errors have no internal frames.
    """
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made._values = attrgetter(*made.__match_args__)
    return without_internal_frames(made)


def set_fields(self: Bundle, *values: Any) -> None:
    """Set the fields of a bundle, in their order."""
    set_field = object.__setattr__  # `Bundle.__setattr__` raises
    for name, value in zip(self.__match_args__, values, strict=True):
        set_field(self, name, value)
