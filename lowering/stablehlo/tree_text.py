"""Nested arguments and results as text: in files, and as calls in messages.

A file has Python literals, `(([(0, 1)], 2), {'scale': 3}, {'y': 0})`: the positional arguments, the
keyword arguments and the result, with the number of @main's argument or result in the place of each
array. `...` is an array that @main does not take. Literals have dicts, lists, tuples and None.
Other classes become these: a named tuple a tuple, a class with named fields a dict, and any other
registered class a tuple.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import Callable
from typing import Any, Final

import jax
from jax.tree_util import DictKey, GetAttrKey

flatten: Final[Callable[[Any], tuple[list[Any], Any]]] = jax.tree_util.default_registry.flatten
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
    if isinstance(tree, dict) or (keys and all(isinstance(key, DictKey) for key in keys)):
        return {key.key: value for key, value in zip(keys, values, strict=True)}
    if keys and all(isinstance(key, GetAttrKey) for key in keys):
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
        if isinstance(key, DictKey):
            text = f"{key.key!r}: {text}"
        elif isinstance(key, GetAttrKey):
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
