"""The arguments of a Python function: bound to its parameters, static ones set apart."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from builder.errors import OperandError, brief
from lowering.errors import ArgumentError
from lowering.running.donation import Parameters, parameter_numbers

__all__ = ["Signature"]

_SEVERAL: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Signature:
    """The parameters of a function that `lowering.jit` is given.

    Attributes:
        name: the function's, for messages.
        names: of the parameters that are not static, in order.
        donated: which of these are to be donated.
        has_static: whether there are static ones.
        count: how many arguments a call has that gives all by position; -1 where there are static
            ones, or some that can't be given so. Such calls need no binding.
    """

    __slots__ = (
        "_by_position",
        "_defaults",
        "_kinds",
        "_names",
        "_signature",
        "_static",
        "count",
        "donated",
        "has_static",
        "name",
        "names",
    )

    def __init__(
        self, name: str, function: Callable[..., Any], donate: Parameters, static: Parameters
    ) -> None:
        try:
            self._signature: Final = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise OperandError(
                f"jit: {name} does not say which arguments it takes: {error}\n"
                f"fix: write a function around it: def {name}(x): ...",
                op="jit",
            ) from None
        parameters = self._signature.parameters
        self.name: Final = name
        self._kinds: Final = tuple(p.kind for p in parameters.values())
        all_names = tuple(parameters)
        static_numbers = parameter_numbers("jit", "static", name, all_names, static)
        donated = parameter_numbers("jit", "donate", name, all_names, donate)
        for number in static_numbers:
            if self._kinds[number] in _SEVERAL:
                raise OperandError(
                    f"jit: static: {all_names[number]!r} of {name} takes any number of arguments\n"
                    f"fix: give those that are static parameters of their own",
                    op="jit",
                )
            if number in donated:
                raise OperandError(
                    f"jit: {all_names[number]!r} of {name} is static and donated, got it in both\n"
                    f"fix: donate arrays; what is static has no memory on a device",
                    op="jit",
                )
        self._static: Final = static_numbers
        self.has_static: Final = bool(static_numbers)
        dynamic = [n for n in range(len(all_names)) if n not in static_numbers]
        self.names: Final = tuple(all_names[n] for n in dynamic)
        self.donated: Final = frozenset(dynamic.index(n) for n in donated)
        # How many may be given by position; -1 where only inspect can say what is meant.
        either, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        is_simple = set(self._kinds) <= {either, by_name}
        self._by_position: Final = self._kinds.count(either) if is_simple else -1
        self._names: Final = all_names
        self._defaults: Final = {
            p.name: p.default for p in parameters.values() if p.default is not p.empty
        }
        is_plain = self._by_position == len(all_names) and not static_numbers
        self.count: Final = len(all_names) if is_plain else -1

    def bound(
        self, args: tuple[Any, ...], by_name: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """The arguments of a call, in the order of the parameters, defaults filled in.

        Returns:
            Those that are not static; the static ones; and a key that tells the static ones from
            others.

        Raises:
            ArgumentError: the function does not take them; a static one can't be hashed.
        """
        values = self._simply_bound(args, by_name)
        if values is None:
            try:
                bound = self._signature.bind(*args, **by_name)
            except TypeError as error:
                raise ArgumentError(
                    f"{self.name}: {error}\nfix: its arguments are {self._signature}",
                    computation=self.name,
                ) from None
            bound.apply_defaults()
            values = list(bound.arguments.values())
        if not self._static:
            return tuple(values), (), ()
        dynamic: list[Any] = []
        static: list[Any] = []
        keys: list[Any] = []
        for number, (name, value) in enumerate(zip(self._names, values, strict=True)):
            if number not in self._static:
                dynamic.append(value)
                continue
            static.append(value)
            key = _key(value)
            try:
                hash(key)
            except TypeError:
                raise ArgumentError(
                    f"{self.name}: the static argument {name} must be hashable, as computations "
                    f"are kept by it, got {type(value).__name__}: {brief(value)}\n"
                    f"fix: give a tuple for a list, or leave {name!r} out of static",
                    computation=self.name,
                    argument=number,
                    name=name,
                ) from None
            keys.append(key)
        return tuple(dynamic), tuple(static), tuple(keys)

    def _simply_bound(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> list[Any] | None:
        """What inspect would bind, in 1 us and not in 8; None if it has to say itself."""
        if len(args) > self._by_position:
            return None
        values = list(args)
        used = 0
        for name in self._names[len(args) :]:
            if name in by_name:
                values.append(by_name[name])
                used += 1
            elif name in self._defaults:
                values.append(self._defaults[name])
            else:
                return None
        return values if used == len(by_name) else None

    def apply(
        self, function: Callable[..., Any], dynamic: Sequence[Any], static: Sequence[Any]
    ) -> Any:
        """The function called with what `bound` gave, or with others in place of it."""
        parts = {True: iter(static), False: iter(dynamic)}
        args: list[Any] = []
        by_name: dict[str, Any] = {}
        for number, (name, kind) in enumerate(
            zip(self._signature.parameters, self._kinds, strict=True)
        ):
            value = next(parts[number in self._static])
            if kind is inspect.Parameter.VAR_POSITIONAL:
                args.extend(value)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                by_name.update(value)
            elif kind is inspect.Parameter.KEYWORD_ONLY:
                by_name[name] = value
            else:
                args.append(value)
        return function(*args, **by_name)


def _key(value: Any) -> Any:
    """What tells a static value from others: 1, 1.0 and True are equal, and not the same."""
    if type(value) is float:
        return float, value.hex()  # 0.0 and -0.0; a NaN is itself
    if type(value) is tuple:
        return tuple, tuple([_key(one) for one in value])
    return type(value), value
