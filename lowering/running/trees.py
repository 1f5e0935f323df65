"""Nested arguments and results: flat lists of what is in them, and back.

jax.tree_util does it, in C++: dicts, lists, tuples, named tuples, None, and what is registered
there. Dataclasses that are not are opened here all the same, without being registered: that would
be a change for the whole process, and in the way of their own registration later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import jax
from jax.tree_util import GetAttrKey, keystr

from builder.support.unique_names import UniqueNames

__all__ = ["TreeError", "flatten", "leaf_names", "leaf_path", "opened"]

flatten: Final[Callable[[Any], tuple[list[Any], Any]]] = jax.tree_util.default_registry.flatten
"""The leaves of a tree and its structure; a dataclass that is not registered is a leaf."""

_DEEPEST: Final = 200
"""How deep dataclasses that are not registered may hold each other."""


class TreeError(Exception):
    """A value that can't be taken apart; the text says why, and how to mend it."""


class _Opened:
    """Stands for a dataclass that is not registered while what is in it is looked at.

    It is taken apart like one, and put together it is the dataclass.
    """

    __slots__ = ("kind", "names", "values")

    def __init__(self, value: Any) -> None:
        self.kind = type(value)
        # Without those that are never set (`field(init=False)`).
        self.names = tuple(f.name for f in dataclasses.fields(value) if hasattr(value, f.name))
        self.values = [getattr(value, name) for name in self.names]


_Facts = tuple[type, tuple[str, ...]]


def _taken_apart(one: _Opened) -> tuple[list[Any], _Facts]:
    return one.values, (one.kind, one.names)


def _taken_apart_with_keys(one: _Opened) -> tuple[list[tuple[Any, Any]], _Facts]:
    pairs = zip(one.names, one.values, strict=True)
    return [(GetAttrKey(name), value) for name, value in pairs], (one.kind, one.names)


def _put_together(facts: _Facts, values: Iterable[Any]) -> Any:
    """A dataclass with these fields. Neither __init__ nor __post_init__ runs: they were run when
    the user made the object, and may check, convert or count what here is no array yet."""
    kind, names = facts
    made: Any = object.__new__(kind)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(made, name, value)  # a frozen one refuses its own
    return made


jax.tree_util.register_pytree_with_keys(
    _Opened, _taken_apart_with_keys, _put_together, _taken_apart
)


def _is_closed(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def opened(tree: Any) -> tuple[Any, list[Any], Any]:
    """A tree with its dataclasses opened; what is in it, left to right; and its structure.

    The structure's `unflatten` puts the same tree together of other leaves, dataclasses included.

    Raises:
        TreeError: it holds itself, is nested too deep, or what is registered for a class fails.

    Example:
        >>> from lowering.running.trees import opened
        >>> _, leaves, structure = opened({"b": [1, None], "a": 2})
        >>> leaves, structure.unflatten([10, 20])
        ([2, 1], {'a': 10, 'b': [20, None]})
    """
    try:
        for _ in range(_DEEPEST):
            leaves, structure = flatten(tree)
            if not any(map(_is_closed, leaves)):
                hash(structure)
                return tree, leaves, structure
            for kind in {type(leaf) for leaf in leaves if _is_closed(leaf)}:
                _need_plain(kind)
            # One level at a time: what is in them may be trees of their own.
            tree = structure.unflatten([_Opened(x) if _is_closed(x) else x for x in leaves])
    except (RecursionError, SystemError):  # jaxlib has the one in the other
        pass
    except (TypeError, ValueError) as error:
        raise TreeError(
            f"jax.tree_util can't take it apart: {str(error).rstrip('.')}\n"
            f"fix: let the keys of a dict be of one sort, and what is registered as a fact of a "
            f"class (meta_fields) be hashable"
        ) from error
    raise TreeError("it holds itself, or is nested too deep\nfix: give a flatter one")


def _need_plain(kind: type) -> None:
    """Raises TreeError for a dataclass that can't be made without its own __new__."""
    try:
        object.__new__(kind)
    except TypeError:
        raise TreeError(
            f"the dataclass {kind.__name__} is of a class of Python's own and can't be rebuilt\n"
            f"fix: register it: jax.tree_util.register_pytree_node"
        ) from None


def leaf_names(tree: Any, names: Sequence[str]) -> list[str]:
    """For each leaf what it is called, by its place: ``params['w']``, ``state.step``.

    Args:
        tree: a tuple of trees, opened.
        names: those of the trees in it.
    """
    unique = UniqueNames()
    found = []
    for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]:
        # Two keys may be written alike; the computation's parameters have names of their own.
        found.append(unique.claim(f"{names[path[0].idx]}{keystr(path[1:])}"))
    return found


def leaf_path(tree: Any, number: int) -> str:
    """The place of a leaf in an opened tree: ``[0]['w']``; empty where the tree is the leaf."""
    return str(keystr(jax.tree_util.tree_flatten_with_path(tree)[0][number][0]))
