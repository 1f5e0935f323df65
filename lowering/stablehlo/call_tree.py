"""CallTree: the nesting of a function's arguments and results, which its module flattens.

A file has Python literals, `(([(0, 1)], 2), {'scale': 3}, {'y': 0})`: the positional arguments, the
keyword arguments and the result, with the number of @main's argument or result in the place of each
array. `...` is an array that @main does not take. Literals have dicts, lists, tuples and None.
Other classes become these: a named tuple a tuple, a class with named fields a dict, and any other
registered class a tuple.

@main of a jax function takes the leaves of the arguments that it uses, after a token for each
ordered effect, and returns the leaves of the results after such tokens. In a module for several
platforms, the first argument is the number of the platform (see `platforms`).
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import keyword
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jaxlib.mlir import ir

from builder.errors import brief
from builder.support.names import UniqueNames
from builder.types.shape import ProgramShape, TokenShape, TupleShape
from lowering.errors import ArgumentError
from lowering.jaxlib_api.lazy_jax import jax
from lowering.jaxlib_api.native import default_registry
from lowering.pjrt.host_arrays import describe
from lowering.stablehlo.platforms import has_platform_index

flatten: Final[Callable[[Any], tuple[list[Any], Any]]] = default_registry.flatten
"""Return the leaves and the structure of a tree."""


class _Name:
    """Represents a leaf in a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


UNUSED: Final = _Name("...")
"""Represents a leaf that @main does not take."""


def children(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the children of a node with their keys, and the structure of the node alone.

    The only child of a leaf is the leaf, with the key ().
    """
    return jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda inner: inner is not node)


def _are(keys: Sequence[Any], kind: type) -> bool:
    return all(isinstance(key, kind) for key in keys)


def plain(tree: Any, leaf: Callable[[Any], Any] = lambda value: value) -> Any:
    """Return a tree of dicts, lists and tuples; see the module's docstring.

    Args:
        tree: the tree.
        leaf: a function of each leaf, in the order of `flatten`, that returns the new leaf.

    Raises:
        RecursionError: the tree is nested too deep.
    """
    pairs, _ = children(tree)
    if len(pairs) == 1 and not pairs[0][0]:
        if dataclasses.is_dataclass(tree) and not isinstance(tree, type):  # not registered
            names = [f.name for f in dataclasses.fields(tree) if hasattr(tree, f.name)]
            return {name: plain(getattr(tree, name), leaf) for name in names}
        return leaf(tree)
    values = [plain(child, leaf) for _, child in pairs]
    if isinstance(tree, tuple):
        return tuple(values)
    if isinstance(tree, list):
        return values
    keys = [key for (key,), _ in pairs]
    if isinstance(tree, dict) or (keys and _are(keys, jax.tree_util.DictKey)):
        return {key.key: value for key, value in zip(keys, values, strict=True)}
    if keys and _are(keys, jax.tree_util.GetAttrKey):
        return {key.name: value for key, value in zip(keys, values, strict=True)}
    return None if tree is None else tuple(values)


def literal_of(tree: Any) -> str | None:
    """Return a tree of numbers and `UNUSED` as text; None if `parsed_literal` can't read it.

    This is so for keys of dicts that are not strings, numbers or tuples of these.
    """
    try:
        text = repr(plain(tree))
        parsed_literal(text)
    except (ValueError, RecursionError):
        return None
    return text


def parsed_literal(text: str) -> Any:
    """Return the tree in a text; `...` for the leaves that @main does not take.

    Raises:
        ValueError: the text is not a tree.
    """
    try:
        tree = ast.literal_eval(text)
        leaves, _ = flatten(tree)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, SystemError):
        raise ValueError("expected a Python literal") from None
    if not all(type(leaf) is int or leaf is ... for leaf in leaves):
        raise ValueError("expected numbers in dicts, lists and tuples")
    return tree


_MOST_LEAVES: Final = 24
_MOST_CHILDREN: Final = 4
"""The number of children shown of each node, if the call has more than `_MOST_LEAVES` leaves."""


def call_text(function: str, args: tuple[Any, ...], by_name: dict[str, Any]) -> str:
    """Return a call as text.

    Args:
        function: the text before the parentheses.
        args, by_name: the arguments, with the name of a variable (a string) in the place of each
            array. Of a call with many arrays, only the first children of each node are shown.
    """
    count = len(flatten((args, by_name))[0])
    most = sys.maxsize if count <= _MOST_LEAVES else _MOST_CHILDREN
    try:
        parts = [_text(value, most) for value in args]
        parts += [f"{name}={_text(value, most)}" for name, value in by_name.items()]
    except RecursionError:
        parts = ["..."]
    return f"{function}({', '.join(parts)})"


def _text(node: Any, most: int) -> str:
    pairs, _ = children(node)
    if len(pairs) == 1 and not pairs[0][0]:
        return str(node)
    if node is None:
        return "None"
    parts = []
    for (key,), child in pairs[:most]:
        text = _text(child, most)
        if isinstance(key, jax.tree_util.DictKey):
            text = f"{key.key!r}: {text}"
        elif isinstance(key, jax.tree_util.GetAttrKey):
            text = f"{key.name}={text}"
        parts.append(text)
    if len(pairs) > most:
        parts.append("...")
    inside = ", ".join(parts)
    if type(node) is dict:
        return f"{{{inside}}}"
    if type(node) is list:
        return f"[{inside}]"
    if type(node) is tuple:
        return f"({inside},)" if len(parts) == 1 else f"({inside})"
    if isinstance(node, dict):
        inside = f"{{{inside}}}"
    return f"{type(node).__name__}({inside})"


NESTING: Final = "xlabuilder.nesting"
"""The attribute of @main with the text of its CallTree."""


@dataclass(frozen=True, slots=True)
class CallTree:
    """The nesting of a function's arguments and results, and the leaves that its module takes.

    Attributes:
        arguments: the jax.tree_util.PyTreeDef of the arguments: a tuple of the positional
            arguments, and a dict of the keyword arguments.
        results: the PyTreeDef of the result.
        used: for each array that @main takes, the number of the leaf.
        returned: for each leaf of the result, the number of @main's result.
        argument_tokens: the number of tokens before the arrays that @main takes.
        is_tuple: whether the program returns a tuple; False if it returns exactly one array.
    """

    arguments: Any
    results: Any
    used: tuple[int, ...]
    returned: tuple[int, ...]
    argument_tokens: int
    is_tuple: bool

    def bind(
        self,
        name: str,
        args: tuple[Any, ...],
        by_name: Mapping[str, Any],
        parameters: Sequence[str],
        *,
        lists: bool = False,
    ) -> tuple[list[Any], Callable[[Any], Any]]:
        """Flatten the arguments of a call to the arguments of @main.

        A call may have the function's arguments; or one array for each parameter of @main, which
        is also the form of calls of programs without nesting. Where the function takes a named
        tuple or an object of a registered class, a tuple or a dict is accepted too, and conversely.

        Args:
            name: the program's name, for messages.
            args, by_name: the arguments.
            parameters: the names of the parameters of @main.
            lists: whether a list in the place of an array has a value for each device.

        Returns:
            The arguments of @main, and the function that nests its result for this call.

        Raises:
            ArgumentError: the nesting differs; the message has the path of the first difference.
        """
        passed = (args, dict(by_name))
        try:
            leaves, structure = flatten(passed)
        except (TypeError, ValueError, RecursionError, SystemError) as error:
            reason = str(error).partition("\n")[0]
            raise ArgumentError(
                f"jax.tree_util can't flatten the arguments: {reason}",
                fix=f"{self._example(parameters)}",
                computation=name,
            ) from None
        if structure != self.arguments:
            other = self._listed(passed) if lists else self._plain_leaves(passed, parameters)
            if other is None:
                flat = _flat_call(args, by_name, parameters, lists=lists)
                if flat is None:
                    raise self._wrong_structure(name, passed, parameters)
                return flat, unchanged
            leaves = other
        tokens = [None] * self.argument_tokens
        return tokens + [leaves[number] for number in self.used], self.nest

    def nest(self, result: Any) -> Any:
        """Nest the program's result like the function's result."""
        values = result if self.is_tuple else (result,)
        return self.results.unflatten([values[number] for number in self.returned])

    @property
    def is_in_order(self) -> bool:
        """Whether the leaves of the result are the results of @main."""
        return self.returned == tuple(range(len(self.returned)))

    def leaf_names(self) -> list[str]:
        """Return the paths of the leaves that @main takes: ``args[0]['w']``, ``kwargs['x']``."""
        names = [_place(path) for path, _ in self._paths()]
        return [names[number] for number in self.used]

    def literal(self) -> str | None:
        """Return the text for files.

        Return None if a dict has keys that are not Python literals, or if a class of the user does
        not take numbers in the place of arrays.
        """
        numbers: list[Any] = [UNUSED] * self.arguments.num_leaves
        for number, leaf in enumerate(self.used, self.argument_tokens):
            numbers[leaf] = number
        try:
            args, by_name = self.arguments.unflatten(numbers)
            result = self.results.unflatten(self.returned)
        except Exception:  # raised by the user's class
            return None
        return literal_of((args, by_name, result))

    def keywords(self) -> list[str]:
        """Return the names of the keyword arguments."""
        return list(self._placeholders()[1])

    def without(self, parameters: Collection[int]) -> CallTree:
        """Return the tree for a program without some of the parameters of @main.

        An argument, or an entry of a dict, is removed if all its arrays are. Any other node has
        None in place of a removed array.
        """
        removed = {
            leaf
            for number, leaf in enumerate(self.used, self.argument_tokens)
            if number in parameters
        }
        args, by_name = self.arguments.unflatten(range(self.arguments.num_leaves))
        kept = [_without(arg, removed) for arg in args]
        named = {name: _without(arg, removed) for name, arg in by_name.items()}
        arguments = (
            tuple([arg for arg in kept if arg is not _REMOVED]),
            {name: arg for name, arg in named.items() if arg is not _REMOVED},
        )
        return self._with_arguments(arguments, [leaf for leaf in self.used if leaf not in removed])

    def with_keywords(self, names: Sequence[str]) -> CallTree:
        """Return the tree for a program with more parameters, passed as keyword arguments."""
        count = self.arguments.num_leaves
        args, by_name = self.arguments.unflatten(range(count))
        more = dict(zip(names, range(count, count + len(names)), strict=True))
        return self._with_arguments((args, by_name | more), [*self.used, *more.values()])

    def _with_arguments(self, arguments: Any, used: Sequence[int]) -> CallTree:
        """Return a tree for other arguments: a tree of numbers, and those that @main takes."""
        numbers, structure = flatten(arguments)
        places = {number: place for place, number in enumerate(numbers)}
        return replace(self, arguments=structure, used=tuple(places[number] for number in used))

    def _placeholders(self) -> Any:
        return self.arguments.unflatten([_ARRAY] * self.arguments.num_leaves)

    def _paths(self) -> list[tuple[Any, Any]]:
        return jax.tree_util.tree_flatten_with_path(self._placeholders())[0]

    def _listed(self, passed: Any) -> list[Any] | None:
        """Return what was passed for each leaf; None if the nesting around it differs."""
        try:
            values: list[Any] = self.arguments.flatten_up_to(passed)
        except ValueError:
            return None
        return values

    def _plain_leaves(self, passed: Any, parameters: Sequence[str]) -> list[Any] | None:
        """Return the leaves of arguments that are nested like the function's in other classes.

        Positional arguments of the function may be passed by name. Return None if the nesting
        differs.
        """
        args, by_name = passed[0], dict(passed[1])
        expected, named = plain(self.arguments.unflatten(range(self.arguments.num_leaves)))
        for root in self._roots(parameters)[len(args) :]:
            if root in named or root not in by_name:
                break
            args = (*args, by_name.pop(root))
        try:
            leaves, structure = flatten(plain((args, by_name)))
            numbers, same = flatten((expected, named))
        except (TypeError, ValueError, RecursionError):
            return None
        if structure != same:
            return None
        by_number = dict(zip(numbers, leaves, strict=True))
        return [by_number[number] for number in range(len(leaves))]

    def _roots(self, parameters: Sequence[str]) -> list[str]:
        """Return the names of the positional arguments; "" for an argument without arrays.

        The names of the parameters have them: "params" of "params['w']".
        """
        roots: dict[int, str] = {}
        names = dict(zip(self.used, parameters[self.argument_tokens :], strict=False))
        for leaf, (path, _) in enumerate(self._paths()):
            if path[0].idx == 0 and leaf in names:
                roots[path[1].idx] = re.split(r"[\[.]", names[leaf])[0]
        count = len(self._placeholders()[0])
        return [roots.get(number, "") for number in range(count)]

    def _example(self, parameters: Sequence[str]) -> str:
        """Return a call of the program, for messages."""
        names = dict(zip(self.used, parameters[self.argument_tokens :], strict=False))
        unique = UniqueNames(separator="_")
        variables = []
        for leaf, (path, _) in enumerate(self._paths()):
            name = names.get(leaf) or _place(path)
            key = _LAST_KEY.search(name)
            name = key[1] if key else re.sub(r"^args\[(\d+)\]", r"arg\1", name)
            name = re.sub(r"\W+", "_", name).strip("_")
            is_name = name.isidentifier() and not keyword.iskeyword(name)
            variables.append(unique.claim(name if is_name else "array"))
        args, by_name = self.arguments.unflatten(variables)
        return f"call {call_text('run', args, by_name)}, with arrays in the places of names"

    def _wrong_structure(self, name: str, passed: Any, parameters: Sequence[str]) -> ArgumentError:
        expected_tree = self._placeholders()
        with contextlib.suppress(RecursionError):
            expected_tree, passed = plain(expected_tree), plain(passed)
        path, expected, got = _first_difference(expected_tree, passed, ())
        return ArgumentError(
            f"{path} must be {expected}",
            got=got,
            fix=f"{self._example(parameters)}",
            computation=name,
        )


_LAST_KEY: Final = re.compile(r"(?:\.|\[['\"])(\w+)(?:['\"]\])?$")
"""Matches the last key in a path, if it is text: "w" in "params['w']" and "params.w"."""

_REMOVED: Final = object()
"""Represents a part of a tree all of whose arrays were removed."""


def _without(tree: Any, removed: Collection[int]) -> Any:
    """Return a tree of numbers without `removed`; `_REMOVED` if it has no others, but had some."""
    numbers = flatten(tree)[0]
    if numbers and all(number in removed for number in numbers):
        return _REMOVED
    if type(tree) is dict:
        parts = {key: _without(part, removed) for key, part in tree.items()}
        return {key: part for key, part in parts.items() if part is not _REMOVED}
    return jax.tree_util.tree_map(lambda number: None if number in removed else number, tree)


_PLACES: Final = ("args", "kwargs")
_ARRAY: Final = object()
"""Represents each array in an expected tree."""


def unchanged(result: Any) -> Any:
    """Return the result of a call that does not nest it."""
    return result


def _place(path: Sequence[Any]) -> str:
    return f"{_PLACES[path[0].idx]}{jax.tree_util.keystr(tuple(path[1:]))}"


def _flat_call(
    args: tuple[Any, ...],
    by_name: Mapping[str, Any],
    parameters: Sequence[str],
    *,
    lists: bool,
) -> list[Any] | None:
    """Return one argument for each parameter; None if the arguments are not of this form.

    Nested lists of numbers are arrays.
    """
    rest = parameters[len(args) :]
    if len(args) > len(parameters) or sorted(rest) != sorted(by_name):
        return None
    values = [*args, *(by_name[name] for name in rest)]
    return values if lists or all(map(_is_array, values)) else None


def _is_array(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(leaf, (bool, int, float, complex)) for leaf in flatten(value)[0])
    return value is None or not isinstance(value, (tuple, dict))


def parsed_tree(text: str, shape: ProgramShape) -> CallTree:
    """Return the CallTree that `CallTree.literal` wrote for a program of this signature.

    Raises:
        ValueError: the text is not one of `literal`, or does not match the signature.
    """
    tree = parsed_literal(text)
    kinds = [type(part) for part in tree[:2]] if isinstance(tree, tuple) else []
    if kinds != [tuple, dict] or len(tree) != 3 or any(type(name) is not str for name in tree[1]):
        raise ValueError("expected (arguments, keyword arguments, result)")
    leaves, arguments = flatten(tree[:2])
    returned, results = flatten(tree[2])
    places = {number: leaf for leaf, number in enumerate(leaves) if number is not ...}
    tokens = _tokens(shape, len(places), len(returned))
    if tokens is not None:
        numbers = range(tokens[0], tokens[0] + len(places))
        outputs = {*range(tokens[1], tokens[1] + len(returned))}
        if places.keys() == {*numbers} and {*returned} == outputs:
            used = tuple(places[number] for number in numbers)
            is_tuple = isinstance(shape.result, TupleShape)
            return CallTree(arguments, results, used, tuple(returned), tokens[0], is_tuple)
    raise ValueError(f"it does not match {shape}")


def _tokens(shape: ProgramShape, used: int, returned: int) -> tuple[int, int] | None:
    """Return the number of tokens before @main's array arguments, and before its array results.

    Return None if a program of this signature can't have so many arrays.
    """
    result = shape.result
    results = list(result.elements) if isinstance(result, TupleShape) else [result]
    before = len(shape.parameters) - used, len(results) - returned
    pairs = zip((shape.parameters, results), before, strict=True)
    fits = all(
        count >= 0 and all(isinstance(one, TokenShape) for one in shapes[:count])
        for shapes, count in pairs
    )
    return before if fits else None


def with_call_tree(
    module: ir.Module,
    shape: ProgramShape,
    platforms: Sequence[str],
    arguments: Any,
    results: Any,
    used: Sequence[int] | None,
) -> tuple[ProgramShape, CallTree | None]:
    """Return the signature, with the names of the leaves, and the CallTree of a module of jax.

    Args:
        module: the module.
        shape: its signature.
        platforms: the platforms that it was lowered for; empty if unknown.
        arguments, results: PyTreeDefs; see `CallTree`.
        used: the numbers of the leaves that @main takes; None if unknown.
    """
    first = 1 if platforms and has_platform_index(module) else 0
    parameters, names = shape.parameters[first:], shape.parameter_names[first:]
    signature = ProgramShape(parameters, shape.result, names)
    tree = _call_tree(arguments, results, used, signature)
    if tree is not None:
        others = shape.parameter_names[: first + tree.argument_tokens]
        shape = ProgramShape(shape.parameters, shape.result, [*others, *tree.leaf_names()])
    return shape, tree


def _call_tree(
    arguments: Any, results: Any, used: Sequence[int] | None, shape: ProgramShape
) -> CallTree | None:
    """Return the CallTree of a module that jax has lowered.

    Args:
        arguments, results, used: see `with_call_tree`.
        shape: the signature of @main, without the number of the platform.

    Returns:
        The CallTree; None if calls need no nesting (all arguments and results are arrays, and all
        arguments are used), or if the leaves do not match the signature.
    """
    if used is None:
        used = range(arguments.num_leaves)
    tokens = _tokens(shape, len(used), results.num_leaves)
    if tokens is None:
        return None
    is_tuple = isinstance(shape.result, TupleShape)
    return call_tree(arguments, results, used, *tokens, is_tuple=is_tuple)


def call_tree(
    arguments: Any,
    results: Any,
    used: Sequence[int],
    argument_tokens: int = 0,
    result_tokens: int = 0,
    *,
    is_tuple: bool | None = None,
) -> CallTree | None:
    """Return a CallTree; None if calls need no nesting.

    They need none if all arguments and results are arrays, and @main takes all arguments in order.

    Args:
        arguments, results, used, argument_tokens: see `CallTree`.
        result_tokens: the number of tokens before the leaves of the result.
        is_tuple: see `CallTree`; None if the program returns a tuple unless it is one array.
    """
    count = results.num_leaves
    if is_tuple is None:
        is_tuple = count != 1
    returned = tuple(range(result_tokens, result_tokens + count))
    tree = CallTree(arguments, results, tuple(used), returned, argument_tokens, is_tuple)
    flat = flatten(((_ARRAY,) * (argument_tokens + len(used)), {}))[1]
    nested = flatten((_ARRAY,) * count if is_tuple else _ARRAY)[1]
    is_same = arguments == flat and results == nested and tree.used == tuple(range(len(used)))
    return None if is_same else tree


def _first_difference(expected: Any, got: Any, path: tuple[Any, ...]) -> tuple[str, str, str]:
    """Return the path of the first node that differs, and descriptions of both nodes."""
    nodes, structure = children(expected)
    passed, passed_structure = children(got)
    if structure != passed_structure:
        return _place(path), _description(expected), _description(got)
    for (key, node), (_, value) in zip(nodes, passed, strict=True):
        inside = (*path, *key)
        if flatten(node)[1] != flatten(value)[1]:
            return _first_difference(node, value, inside)
    raise AssertionError("the trees are equal")


def _description(node: Any) -> str:
    """Describe a node of a tree for messages."""
    if node is _ARRAY:
        return "an array"
    if isinstance(node, dict):
        return f"a dict with the keys {brief(list(node))}"
    if isinstance(node, (tuple, list)):
        return f"a {type(node).__name__} of {len(node)}"
    return describe(node)
