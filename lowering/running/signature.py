"""Bind the arguments of a Python function to its parameters; separate static arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from builder.errors import OperandError, brief, error_of
from lowering.errors import ArgumentError
from lowering.running.donation import Parameters, parameter_numbers
from lowering.running.trees import flatten

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Signature:
    """The parameters of a function that `lowering.jit` compiles.

    Attributes:
        name: the function's name, for messages.
        function: the function.
        names: the names of the parameters that are not static, in order.
        donated: the positions of the donated parameters in `names`.
        has_static: whether there are static parameters.
        keeps_order: the method `_keeps_order` with a cache of its results.
        count: the number of parameters; -1 if there are static, keyword-only or variadic
            parameters. A call with `count` positional arguments needs no binding.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], donate: Parameters, static: Parameters
    ) -> None:
        try:
            self._signature: Final = inspect.signature(function)
        except (TypeError, ValueError) as error:
            rule = f"{name} has no signature: {error}"
            fix = "wrap the callable in a function with named parameters: lambda x: f(x)"
            raise _error(rule, fix) from None
        parameters = self._signature.parameters
        self.name: Final = name
        self.function: Final = function
        self._kinds: Final = tuple(p.kind for p in parameters.values())
        self._names: Final = tuple(parameters)
        self._static: Final = parameter_numbers("jit", "static", name, self._names, static)
        donated = parameter_numbers("jit", "donate", name, self._names, donate)
        for number in self._static:
            parameter = f"{self._names[number]!r} of {name}"
            if self._kinds[number] in _VARIADIC:
                rule = f"a static parameter must not be *args or **kwargs, got {parameter}"
                fix = "declare a separate parameter for each static argument"
                raise _error(rule, fix)
            if number in donated:
                rule = f"a parameter can't be both static and donated, got {parameter} in both"
                fix = "remove the parameter from donate: a static argument has no device memory"
                raise _error(rule, fix)
        self.has_static: Final = bool(self._static)
        dynamic = [n for n in range(len(self._names)) if n not in self._static]
        self.names: Final = tuple(self._names[n] for n in dynamic)
        self.donated: Final = frozenset(dynamic.index(n) for n in donated)
        # The number of parameters that accept positions; -1 where only inspect can bind a call.
        either, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        is_simple = set(self._kinds) <= {either, by_name}
        self._positional: Final = self._kinds.count(either) if is_simple else -1
        self._defaults: Final = {
            p.name: p.default for p in parameters.values() if p.default is not p.empty
        }
        needs_no_binding = self._positional == len(self._names) and not self._static
        self.count: Final = len(self._names) if needs_no_binding else -1
        self.keeps_order: Final = functools.lru_cache(maxsize=64)(self._keeps_order)

    def bind(
        self, args: tuple[Any, ...], by_name: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """Bind the arguments of a call to the parameters, and apply defaults.

        Returns:
            The arguments that are not static, the static arguments, and a hashable key of the
            static arguments.

        Raises:
            ArgumentError: the function does not take the arguments; a static argument is not
                hashable.
        """
        values = self._bind_simple(args, by_name)
        if values is None:
            try:
                bound = self._signature.bind(*args, **by_name)
            except TypeError as error:
                raise ArgumentError(
                    f"{error}",
                    fix=f"call it as {self.name}{self._signature}",
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
            keys.append(_key(value))
            try:
                hash(keys[-1])
            except TypeError:
                raise ArgumentError(
                    f"the static argument {name} must be hashable, because "
                    "compiled programs are cached by static arguments",
                    got=f"{type(value).__name__}: {brief(value)}",
                    fix=f"pass a tuple instead of a list, or remove {name!r} from static",
                    computation=self.name,
                    argument=number,
                    name=name,
                ) from None
        return tuple(dynamic), tuple(static), tuple(keys)

    def _bind_simple(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> list[Any] | None:
        """Bind as `inspect.Signature.bind` does, but much faster.

        Return None for calls that only `inspect.Signature.bind` supports.
        """
        if len(args) > self._positional:
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

    def _keeps_order(self, count: int, names: tuple[str, ...]) -> bool:
        """Return whether `bind` and jaxlib put the arguments of a call in the same order.

        jaxlib flattens positional arguments first, and then named arguments, sorted by name.

        Args:
            count: the number of arguments that are passed by position.
            names: the names of the arguments that are passed by name, in any order.
        """
        positional = [object() for _ in range(count)]
        by_name = {name: object() for name in sorted(names)}
        try:
            bound = self._signature.bind(*positional, **by_name)
        except TypeError:
            return False  # `bind` raises the error
        bound.apply_defaults()
        order = flatten(list(bound.arguments.values()))[0]
        return list(map(id, order)) == list(map(id, (*positional, *by_name.values())))

    def apply(self, dynamic: Sequence[Any], static: Sequence[Any]) -> Any:
        """Call the function with arguments in the order that `bind` returns."""
        parts = {True: iter(static), False: iter(dynamic)}
        values = [next(parts[number in self._static]) for number in range(len(self._names))]
        args, by_name = self._call(range(len(values)), values)
        return self.function(*args, **by_name)

    def call_without_static(self, dynamic: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and the named arguments of a call, without the static ones.

        Args:
            dynamic: the other arguments, in the order that `bind` returns.
        """
        numbers = [n for n in range(len(self._names)) if n not in self._static]
        return self._call(numbers, dynamic)

    def _call(
        self, numbers: Sequence[int], values: Sequence[Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and the named arguments that have these values.

        Args:
            numbers: the numbers of parameters.
            values: the value of each of these parameters.
        """
        args: list[Any] = []
        by_name: dict[str, Any] = {}
        for number, value in zip(numbers, values, strict=True):
            name, kind = self._names[number], self._kinds[number]
            if kind is inspect.Parameter.VAR_POSITIONAL:
                args.extend(value)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                by_name.update(value)
            elif kind is inspect.Parameter.KEYWORD_ONLY:
                by_name[name] = value
            else:
                args.append(value)
        return tuple(args), by_name


_error: Final = functools.partial(error_of, OperandError, "jit")


def _key(value: Any) -> Any:
    """Return a key that distinguishes equal values of different types, such as 1, 1.0 and True."""
    if type(value) is float:
        return float, value.hex()  # distinguishes 0.0 and -0.0, and equates NaNs
    if type(value) is tuple:
        return tuple, tuple([_key(element) for element in value])
    return type(value), value
