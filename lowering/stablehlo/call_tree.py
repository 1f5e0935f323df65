"""CallTree: the nesting of a jax function's arguments and results, which its module flattens.

@main takes the leaves of the arguments that it uses, after a token for each ordered effect, and
returns the leaves of the results after such tokens. In a module for several platforms, the first
argument is the number of the platform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
from jax.tree_util import keystr
from jaxlib.mlir import ir

from builder.errors import brief
from builder.types.shape import ProgramShape, TokenShape, TupleShape
from lowering.errors import ArgumentError
from lowering.mlir.operations import entry_text, main_function
from lowering.pjrt.host_arrays import describe

_flatten: Final = jax.tree_util.default_registry.flatten


@dataclass(frozen=True, slots=True)
class CallTree:
    """The nesting of a function's arguments and results, and the leaves that its module takes.

    Attributes:
        arguments: the jax.tree_util.PyTreeDef of the arguments: a tuple of the positional
            arguments, and a dict of the keyword arguments.
        results: the PyTreeDef of the result.
        used: the numbers of the leaves that @main takes.
        argument_tokens, result_tokens: the numbers of tokens before the leaves.
        is_tuple: whether the program returns a tuple; False if it returns exactly one array.
    """

    arguments: Any
    results: Any
    used: tuple[int, ...]
    argument_tokens: int
    result_tokens: int
    is_tuple: bool

    def flatten(self, name: str, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> list[Any]:
        """Flatten the function's arguments to the arguments of @main.

        Raises:
            ArgumentError: the nesting differs; the message has the path of the first difference.
        """
        passed = (args, dict(by_name))
        try:
            leaves, structure = _flatten(passed)
        except (TypeError, ValueError, RecursionError, SystemError) as error:
            reason = str(error).partition("\n")[0]
            raise ArgumentError(
                f"{name}: jax.tree_util can't flatten the arguments: {reason}\n"
                f"fix: pass arguments nested as {self._text()}",
                computation=name,
            ) from None
        if structure != self.arguments:
            raise self._wrong_structure(name, passed)
        return [None] * self.argument_tokens + [leaves[number] for number in self.used]

    def nest(self, result: Any) -> Any:
        """Nest the program's result like the function's result."""
        values = result[self.result_tokens :] if self.is_tuple else (result,)
        return self.results.unflatten(values)

    def leaf_names(self) -> list[str]:
        """Return the paths of the leaves that @main takes: ``args[0]['w']``, ``kwargs['x']``."""
        paths = jax.tree_util.tree_flatten_with_path(self._placeholders())[0]
        names = [f"{_PLACES[path[0].idx]}{keystr(path[1:])}" for path, _ in paths]
        return [names[number] for number in self.used]

    def _placeholders(self) -> Any:
        return self.arguments.unflatten([_ARRAY] * self.arguments.num_leaves)

    def _text(self) -> str:
        """Return the nesting of the arguments for messages."""
        return str(self.arguments).removeprefix("PyTreeDef(").removesuffix(")")

    def _wrong_structure(self, name: str, passed: Any) -> ArgumentError:
        path, expected, got = _first_difference(self._placeholders(), passed, ())
        fix = f"pass arguments nested as (args, kwargs) = {self._text()}, where * is an array"
        return ArgumentError(
            f"{name}: {path} must be {expected}, got {got}\nfix: {fix}", computation=name
        )


_PLACES: Final = ("args", "kwargs")
_ARRAY: Final = object()
"""Represents each array in an expected tree."""


def has_platform_index(module: ir.Module) -> bool:
    """Return whether the first argument of @main is the number of a platform."""
    attributes = main_function(module.operation).attributes
    if "arg_attrs" not in attributes:
        return False
    arguments = ir.ArrayAttr(attributes["arg_attrs"])
    name = entry_text(ir.DictAttr(arguments[0]), "jax.global_constant") if len(arguments) else None
    return name == "_platform_index"


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
    result = shape.result
    is_tuple = isinstance(result, TupleShape)
    returned = list(result.elements) if isinstance(result, TupleShape) else [result]
    argument_tokens = len(shape.parameters) - len(used)
    result_tokens = len(returned) - results.num_leaves
    if (
        argument_tokens < 0
        or result_tokens < 0
        or not all(isinstance(s, TokenShape) for s in shape.parameters[:argument_tokens])
        or not all(isinstance(s, TokenShape) for s in returned[:result_tokens])
    ):
        return None
    tree = CallTree(
        arguments,
        results,
        tuple(used),
        argument_tokens,
        result_tokens,
        is_tuple,
    )
    count = len(shape.parameters)
    nested = (_ARRAY,) * len(returned) if is_tuple else _ARRAY
    is_flat = _flatten(((_ARRAY,) * count, {}))[1] == arguments
    is_same = is_flat and _flatten(nested)[1] == results and len(used) == count
    return None if is_same else tree


def _first_difference(expected: Any, got: Any, path: tuple[Any, ...]) -> tuple[str, str, str]:
    """Return the path of the first node that differs, and descriptions of both nodes."""
    nodes, structure = _one_level(expected)
    passed, passed_structure = _one_level(got)
    if structure != passed_structure:
        place = f"{_PLACES[path[0].idx]}{keystr(path[1:])}"
        return place, _description(expected), _description(got)
    for (key, node), (_, value) in zip(nodes, passed, strict=True):
        inside = (*path, *key)
        if _flatten(node)[1] != _flatten(value)[1]:
            return _first_difference(node, value, inside)
    raise AssertionError("the trees are equal")


def _one_level(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the children of a node with their keys, and the structure of the node alone."""
    return jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda node: node is not tree)


def _description(node: Any) -> str:
    """Describe a node of a tree for messages."""
    if node is _ARRAY:
        return "an array"
    if isinstance(node, dict):
        return f"a dict with the keys {brief(list(node))}"
    if isinstance(node, (tuple, list)):
        return f"a {type(node).__name__} of {len(node)}"
    return describe(node)
