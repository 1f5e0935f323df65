"""Flatten nested arguments and results, and rebuild them.

jax.tree_util flattens dicts, lists, tuples, named tuples, None, and registered classes.
This module flattens unregistered dataclasses too, without registering them: registering would
affect the process, and prevent the user from registering them later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import jax
from jax.tree_util import GetAttrKey, keystr

from builder.support.unique_names import UniqueNames

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
        >>> from lowering.running.trees import flatten_dataclasses
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
