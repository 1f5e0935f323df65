"""The arguments of a jitted function: binding them to parameters, flattening them, their shapes.

jax.tree_util flattens dicts, lists, tuples, named tuples, None, and registered classes.
This module flattens unregistered dataclasses too, without registering them: registering would
affect the process, and prevent the user from registering them later.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.tree_util import GetAttrKey, keystr

from builder.checking import integers
from builder.errors import OperandError, brief, error_of
from builder.graph.xla_op import XlaOp
from builder.support.names import UniqueNames
from builder.types import primitive_type as pt
from builder.types.foreign_arrays import UnreadableArrayError, read_array
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, intern_array
from lowering.errors import ArgumentError
from lowering.jaxlib_api import jax_arrays
from lowering.pjrt.host_arrays import describe
from lowering.running.options import Parameters, parameter_numbers

flatten: Final[Callable[[Any], tuple[list[Any], Any]]] = jax.tree_util.default_registry.flatten
"""Return the leaves and the structure of a tree; an unregistered dataclass is a leaf."""

_MAX_DEPTH: Final = 200
"""The maximal nesting depth of unregistered dataclasses."""


class TreeError(Exception):
    """Raised for a value that can't be flattened.

    Attributes:
        reason, fix: why, and what to pass instead.
    """

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix


class _OpenDataclass:
    """Represents an instance of an unregistered dataclass in a tree.

    jax.tree_util flattens an `_OpenDataclass` to the fields of the instance, and unflattens to an
    instance of the dataclass.
    """

    def __init__(self, value: Any) -> None:
        self.kind = type(value)
        # A field that is never set (`field(init=False)`) is omitted.
        self.names = tuple(f.name for f in dataclasses.fields(value) if hasattr(value, f.name))
        self.values = [getattr(value, name) for name in self.names]


_Metadata = tuple[type, tuple[str, ...]]


def _flatten_fields(opened: _OpenDataclass) -> tuple[list[Any], _Metadata]:
    return opened.values, (opened.kind, opened.names)


def _flatten_with_keys(opened: _OpenDataclass) -> tuple[list[tuple[Any, Any]], _Metadata]:
    pairs = zip(opened.names, opened.values, strict=True)
    return [(GetAttrKey(name), value) for name, value in pairs], (opened.kind, opened.names)


def _unflatten(metadata: _Metadata, values: Iterable[Any]) -> Any:
    """Return an instance of a dataclass with these field values.

    Neither __init__ nor __post_init__ runs: they may check or convert fields, but the values may be
    placeholders instead of arrays.
    """
    kind, names = metadata
    instance: Any = object.__new__(kind)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(instance, name, value)  # works for a frozen dataclass too
    return instance


jax.tree_util.register_pytree_with_keys(
    _OpenDataclass, _flatten_with_keys, _unflatten, _flatten_fields
)


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def flatten_dataclasses(tree: Any) -> tuple[Any, list[Any], Any]:
    """Flatten a tree, including the fields of unregistered dataclasses.

    Return the tree with each unregistered dataclass replaced by an `_OpenDataclass`, its leaves,
    and its structure.

    The structure's `unflatten` rebuilds the tree, including dataclasses, from other leaves.

    Raises:
        TreeError: the tree contains itself, is nested too deep, or contains a class whose
            registered flattening function fails.

    Example:
        >>> from lowering.running.jit_arguments import flatten_dataclasses
        >>> _, leaves, structure = flatten_dataclasses({"b": [1, None], "a": 2})
        >>> leaves, structure.unflatten([10, 20])
        ([2, 1], {'a': 10, 'b': [20, None]})
    """
    try:
        for _ in range(_MAX_DEPTH):
            leaves, structure = flatten(tree)
            if not any(map(_is_dataclass, leaves)):
                hash(structure)
                return tree, leaves, structure
            for kind in {type(leaf) for leaf in leaves if _is_dataclass(leaf)}:
                _check_rebuildable(kind)
            # One level at a time: the fields may be trees themselves.
            tree = structure.unflatten(
                [_OpenDataclass(x) if _is_dataclass(x) else x for x in leaves]
            )
    except (RecursionError, SystemError):  # jaxlib raises the first wrapped in the second
        pass
    except (TypeError, ValueError) as error:
        raise TreeError(
            f"jax.tree_util can't flatten the value: {str(error).rstrip('.')}",
            "use keys of one type in a dict, and hashable metadata (meta_fields) of a registered "
            "class",
        ) from error
    raise TreeError(
        "the value contains itself, or is nested too deep",
        "pass a value that does not contain itself and is nested less deeply",
    )


def _check_rebuildable(kind: type) -> None:
    """Raise TreeError for a dataclass that object.__new__ can't create."""
    try:
        object.__new__(kind)
    except TypeError:
        raise TreeError(
            f"the dataclass {kind.__name__} has a built-in base class and can't be rebuilt",
            "register the class: jax.tree_util.register_pytree_node",
        ) from None


def leaf_names(tree: Any, names: Sequence[str]) -> list[str]:
    """Return a unique name for each leaf, made from its path: ``params['w']``, ``state.step``.

    Args:
        tree: a tuple of trees, from `flatten_dataclasses`.
        names: the names of the trees.
    """
    unique = UniqueNames()  # keys of different types may have the same text
    return [
        unique.claim(f"{names[path[0].idx]}{keystr(path[1:])}")
        for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]


def leaf_path(tree: Any, number: int) -> str:
    """Return the path of leaf `number`: ``[0]['w']``; empty if the tree itself is the leaf."""
    return str(keystr(jax.tree_util.tree_flatten_with_path(tree)[0][number][0]))


_JaxArray: Final = jax_arrays.array_type
_SHAPES: Final = (ArrayShape, TupleShape, TokenShape)
_NOT_FOREIGN: Final = (jax.Array, XlaOp, bool, int, float, complex)
NUMBERS: Final = frozenset((bool, int, float, complex))
"""The types of Python numbers, which become arrays of rank 0."""


def descriptions(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Return a hashable description of each leaf: shape and element type; None if not an array."""
    # The aval of a jax.Array is faster than its shape and dtype: jax has one object for equal
    # avals, so that a dict compares it by identity.
    return tuple(
        [
            leaf.aval
            if type(leaf) is _JaxArray
            else (
                (leaf.dtype, leaf.shape)
                if type(leaf) is np.ndarray or isinstance(leaf, np.generic)
                else None
            )
            for leaf in leaves
        ]
    )


def as_numpy(leaf: Any) -> Any:
    """Return an array of another library as a NumPy array; any other value itself."""
    if type(leaf) is np.ndarray or isinstance(leaf, _NOT_FOREIGN):
        return leaf
    try:
        array = read_array(leaf)
    except UnreadableArrayError:  # `mismatch` reports the reason
        return leaf
    return leaf if array is None else array


def shape_of(leaf: Any) -> ArrayShape | None:
    """Return the shape of an array that an executable takes; None for other values."""
    if type(leaf) is _JaxArray or type(leaf) is np.ndarray or isinstance(leaf, np.generic):
        return _array_shape(leaf)
    return None


def element_types(leaves: Sequence[Any]) -> list[PrimitiveType]:
    """Return the element types of the arrays, shapes and XlaOps among the leaves."""
    shapes = [
        leaf.shape if type(leaf) is XlaOp else shape_of(leaf) or declared_shape(leaf)
        for leaf in leaves
    ]
    return [shape.element_type for shape in shapes if isinstance(shape, ArrayShape)]


def declared_shape(leaf: Any) -> Shape | None:
    """Return the shape of a shape, a `jax.ShapeDtypeStruct` or a tracer; None for other values."""
    if isinstance(leaf, (jax.ShapeDtypeStruct, jax.core.Tracer)):
        return _array_shape(leaf)
    return leaf if isinstance(leaf, _SHAPES) else None


def _array_shape(array: Any) -> ArrayShape | None:
    try:
        return intern_array(pt.from_dtype(array.dtype), tuple(array.shape))
    except ValueError:
        return None


def mismatch(leaf: Any, name: str, *, is_argument: bool) -> tuple[str, str]:
    """Return the rule that a leaf violates, with the leaf's value, and the fix.

    Args:
        leaf: a value that is not an array.
        name: the leaf's path in the arguments.
        is_argument: whether the leaf is a full argument, not a part of one.
    """
    alternative = ""
    if is_argument:
        alternative = f"; or, if the value rarely changes, pass static=[{name!r}] to lowering.jit"
    elif name.rpartition(".")[2].isidentifier():
        alternative = (
            "; or register the class of this field's object, with the field as metadata: "
            "jax.tree_util.register_dataclass(..., meta_fields=[...])"
        )
    if isinstance(leaf, jax.core.Tracer):
        fix = "call lowering.to_jax(function.computation(...)) in transformations of jax"
        return "an array, got a tracer of jax", fix
    if declared_shape(leaf) is not None:
        fix = "pass an array; only computation, lower and compile take shapes"
        return f"an array, got the shape {leaf}", fix
    fix = f"pass a NumPy array or a jax.Array{alternative}"
    if isinstance(leaf, jax.Array):
        fix = "pass the key's numbers: jax.random.key_data(key)"
    else:
        try:
            read_array(leaf)
        except UnreadableArrayError as error:
            return f"an array, got {error.got}", error.fix
    return f"an array of numbers, got {describe(leaf)}", fix


_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


OpenSizes = Mapping[str | int, int | Sequence[int]] | None
"""The dimensions of unbounded size by parameter; see `lowering.jit`."""


class Signature:
    """The parameters of a function that `lowering.jit` compiles.

    Attributes:
        name: the function's name, for messages.
        function: the function.
        names: the names of the parameters that are not static, in order.
        donated: the positions of the donated parameters in `names`.
        open_sizes: by the position of a parameter in `names`, the dimensions of its arrays whose
            sizes are not fixed in a recording.
        has_static: whether there are static parameters.
        keeps_order: the method `_keeps_order` with a cache of its results.
        count: the number of parameters; -1 if there are static, keyword-only or variadic
            parameters. A call with `count` positional arguments needs no binding.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        donate: Parameters,
        static: Parameters,
        open_sizes: OpenSizes = None,
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
                rule = "a static parameter must not be *args or **kwargs"
                fix = "declare a separate parameter for each static argument"
                raise _error(rule, fix, got=parameter)
            if number in donated:
                rule = "a parameter can't be both static and donated"
                fix = "remove the parameter from donate: a static argument has no device memory"
                raise _error(rule, fix, got=f"{parameter} in both")
        self.has_static: Final = bool(self._static)
        dynamic = [n for n in range(len(self._names)) if n not in self._static]
        self.names: Final = tuple(self._names[n] for n in dynamic)
        self.donated: Final = frozenset(dynamic.index(n) for n in donated)
        self.open_sizes: Final = self._read_open_sizes(open_sizes, dynamic)
        # The number of parameters that accept positions; -1 where only inspect can bind a call.
        either, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        is_simple = set(self._kinds) <= {either, by_name}
        # Whether the parameters are the positional ones and *args.
        self._is_variadic: Final = self._kinds == (
            *[either] * self._kinds.count(either),
            inspect.Parameter.VAR_POSITIONAL,
        )
        self._positional: Final = self._kinds.count(either) if is_simple else -1
        self._defaults: Final = {
            p.name: p.default for p in parameters.values() if p.default is not p.empty
        }
        needs_no_binding = self._positional == len(self._names) and not self._static
        self.count: Final = len(self._names) if needs_no_binding else -1
        self.keeps_order: Final = functools.lru_cache(maxsize=64)(self._keeps_order)

    def _read_open_sizes(
        self, open_sizes: OpenSizes, dynamic: list[int]
    ) -> dict[int, tuple[int, ...]]:
        """Return the attribute `open_sizes` for the argument of `lowering.jit`."""
        if open_sizes is None:
            return {}
        if not isinstance(open_sizes, Mapping):
            rule = "open_sizes must be a dict of parameters and dimensions, such as {'x': 0}"
            raise _error(rule, got=brief(open_sizes))
        found = {}
        for parameter, dimensions in open_sizes.items():
            (number,) = parameter_numbers("jit", "open_sizes", self.name, self._names, [parameter])
            if number in self._static:
                rule = "a parameter in open_sizes must not be static"
                raise _error(rule, got=f"{self._names[number]!r} of {self.name}")
            listed = [dimensions] if isinstance(dimensions, int) else dimensions
            numbers = integers("jit", f"open_sizes[{parameter!r}]", listed)
            if not numbers or min(numbers) < 0:
                rule = "the dimensions in open_sizes must not be negative"
                raise _error(rule, got=brief(dimensions))
            found[dynamic.index(number)] = numbers
        return found

    def leaves_of(self, nested: Any, positions: Collection[int]) -> dict[int, int]:
        """Return the numbers of the leaves of some arguments, with the arguments' positions."""
        found: dict[int, int] = {}
        first = 0
        for position, argument in enumerate(nested):
            count = len(flatten(argument)[0])
            if position in positions:
                found.update(dict.fromkeys(range(first, first + count), position))
            first += count
        return found

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
                unknown = [name for name in by_name if name not in self._names]
                if unknown and inspect.Parameter.VAR_KEYWORD not in self._kinds:
                    # Python would only report the parameter that the name was meant for.
                    rule = f"got an unexpected keyword argument {unknown[0]!r}"
                else:
                    rule = f"{error}"
                raise ArgumentError(
                    rule,
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
        if self._is_variadic and not by_name and len(args) >= (fixed := len(self._names) - 1):
            return [*args[:fixed], args[fixed:]]
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
