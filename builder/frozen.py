"""Frozen classes of a few fields: ``@dataclass(frozen=True, slots=True)``, written when needed.

`dataclass` writes the methods of a class as text and compiles it, 0.9 ms a class whenever it is
imported: for the twelve classes of `import builder` more than a quarter of all. Here the methods
whose speed counts are written when a class is first used, and most programs use two or three; the
others are the same for all classes. That leaves 0.03 ms a class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar, dataclass_transform

__all__ = ["frozen"]

C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def frozen(cls: type[C]) -> type[C]:
    """Makes a frozen class with slots of one whose annotations name its fields.

    It is called, compared, hashed, printed, copied, pickled and matched as a frozen dataclass is,
    and is one for the functions of `dataclasses`, such as ``replace``. `__post_init__` is called.
    Methods that the class has itself stay. Fields are plain ones, with or without a default value,
    and no class derives from it.

    Example:
        >>> from builder.frozen import frozen
        >>> @frozen
        ... class Pair:
        ...     low: int
        ...     high: int = 0
        >>> Pair(2), Pair(2) == Pair(low=2, high=0)
        (Pair(low=2, high=0), True)
    """
    own = vars(cls)
    fields = tuple(cls.__annotations__)
    defaults = {name: own[name] for name in fields if name in own}
    body: dict[str, Any] = {
        **{name: _Unwritten(defaults) for name in ("__init__", "__eq__", "__hash__")},
        **_SHARED,
        **{name: _AsDataclass(cls) for name in ("__dataclass_fields__", "__dataclass_params__")},
        **{name: value for name, value in own.items() if name not in {*fields, *_LEFT_OUT}},
        "__slots__": fields,
        "__match_args__": fields,
        "__qualname__": cls.__qualname__,
    }
    # A new class, as slots can't be added to one that is there.
    return type(cls.__name__, cls.__bases__, body)


_LEFT_OUT: Final = ("__dict__", "__weakref__")
"""What a class without slots has, and one with slots has not."""


class _Unwritten:
    """Stands for a method of a frozen class until somebody asks for one of them."""

    def __init__(self, defaults: dict[str, Any]) -> None:
        self.defaults = defaults

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.owner = owner
        self.name = name

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        methods = _written(self.owner, self.defaults)
        for name, method in methods.items():
            if isinstance(vars(self.owner)[name], _Unwritten):
                setattr(self.owner, name, method)
        method = methods[self.name]
        return method if instance is None else method.__get__(instance)


def _written(cls: type[Any], defaults: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """The methods of a frozen class that depend on its fields."""
    fields: tuple[str, ...] = cls.__match_args__
    parameters = [f"{name}=defaults[{name!r}]" if name in defaults else name for name in fields]
    mine = "".join(f"self.{name}, " for name in fields)
    text = [
        f"def __init__(self, {', '.join(parameters)}):",
        # The slots' own setters, which do not ask whether the class is frozen. They take 60 ns a
        # field less than `object.__setattr__`, which `dataclass` has there.
        *(f" set_{name}(self, {name})" for name in fields),
        *([" self.__post_init__()"] if hasattr(cls, "__post_init__") else []),
        "def __eq__(self, other):",
        " if other.__class__ is not self.__class__: return NotImplemented",
        f" return ({mine}) == ({mine.replace('self.', 'other.')})",
        "def __hash__(self):",
        f" return hash(({mine}))",
    ]
    setters = {f"set_{name}": vars(cls)[name].__set__ for name in fields}
    names: dict[str, Any] = {"__name__": cls.__module__, "defaults": defaults, **setters}
    exec("\n".join(text), names)  # as `dataclass` does, of names that stand in this project
    methods = {name: names[name] for name in ("__init__", "__eq__", "__hash__")}
    for name, method in methods.items():
        method.__qualname__ = f"{cls.__qualname__}.{name}"  # for Python's messages
    methods["__init__"].__annotations__ = {**cls.__annotations__, "return": None}
    return methods


class _AsDataclass:
    """What the functions of `dataclasses` ask a class for: made by `dataclass`, when they ask."""

    def __init__(self, plain: type[Any]) -> None:
        self.plain = plain

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        from dataclasses import dataclass

        if self.name not in vars(self.plain):
            dataclass(frozen=True)(self.plain)
        return vars(self.plain)[self.name]


def _repr(self: Any) -> str:
    fields = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__]
    return f"{type(self).__qualname__}({', '.join(fields)})"


def _refuse(_self: Any, name: str, *value: object) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


def _reduce(self: Any) -> tuple[Any, ...]:
    return type(self), tuple([getattr(self, name) for name in self.__match_args__])


def _replace(self: Any, /, **changes: Any) -> Any:
    return type(self)(**{name: getattr(self, name) for name in self.__match_args__} | changes)


_SHARED: Final = {
    "__repr__": _repr,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__reduce__": _reduce,  # for pickle and copy
    "__replace__": _replace,  # for copy.replace
}
