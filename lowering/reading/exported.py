"""Find the module inside the output of `jax.export.Exported.serialize`, its platforms and trees.

The output is a FlatBuffers table. One field is the module's portable artifact. Other fields are the
names of the platforms, the nesting of the arguments and results, and the argument leaves that the
module takes. Only jax uses the remaining fields (shardings, derivatives). jax reads the table with
the package flatbuffers, which may not be installed. This module does not need it.

FlatBuffers Internals: Tables; Vectors; Strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

from lowering.jaxlib_api.lazy_jax import jax
from lowering.jaxlib_api.mlir import BYTECODE_MAGIC

_ARGUMENTS: Final = 8
_RESULTS: Final = 12
_PLATFORMS: Final = 22
_MODULE: Final = 30
_USED: Final = 34
"""The positions of fields (the 3rd, 5th, 10th, 14th and 16th) in the table of field offsets.

These positions are the same in all versions of jax: a FlatBuffers schema never moves a field."""

_KIND: Final = 4
_CHILDREN: Final = 6
_KEYS: Final = 8
"""The positions of the fields of a node of a tree. A node is a table too."""

_LEAF, _NONE, _TUPLE, _LIST, _DICT = range(5)
"""The kinds of nodes. The kind 5 is a class that the user registered with jax."""

_MAX_PLATFORMS: Final = 16
_MAX_DEPTH: Final = 100


class _Table:
    """A table of FlatBuffers data.

    Args:
        part: a function that returns bytes of the data, given their position and number.
        total: the size of the data in bytes.
        offset_at: the position of the offset to the table; 0 for the root table.
    """

    def __init__(self, part: Callable[[int, int], bytes], total: int, offset_at: int = 0) -> None:
        self._part: Final = part
        self._total: Final = total
        self._table: Final = offset_at + self._number(offset_at, 4)
        self._offsets: Final = self._table - self._number(self._table, 4, signed=True)

    def _number(self, at: int, size: int, *, signed: bool = False) -> int:
        if not 0 <= at <= self._total - size:
            raise IndexError
        return int.from_bytes(self._part(at, size), "little", signed=signed)

    def _field(self, entry: int) -> int | None:
        """Return the position of a field; None if the field is absent.

        Args:
            entry: the position of the field in the table of offsets.
        """
        if self._number(self._offsets, 2) < entry + 2:
            return None
        offset = self._number(self._offsets + entry, 2)
        return self._table + offset if offset else None

    def byte(self, entry: int) -> int:
        """Return a field of one byte; 0, the default of FlatBuffers, if the field is absent."""
        at = self._field(entry)
        return 0 if at is None else self._number(at, 1)

    def vector(self, entry: int) -> tuple[int, int] | None:
        """Return the position and the length of a field's vector; None if the field is absent.

        Raises:
            IndexError: the vector is outside the data.
        """
        at = self._field(entry)
        return None if at is None else self._sized(at)

    def _sized(self, at: int) -> tuple[int, int]:
        """Return the position and the length of a vector or string, whose offset is at `at`."""
        place = at + self._number(at, 4)
        return place + 4, self._number(place, 4)

    def _places(self, entry: int, size: int) -> range:
        """Return the positions of the elements, of `size` bytes each, of a field's vector."""
        begin, count = self.vector(entry) or (0, 0)
        if begin + count * size > self._total:
            raise IndexError
        return range(begin, begin + count * size, size)

    def numbers(self, entry: int, size: int) -> list[int]:
        """Return a field's vector of unsigned integers of `size` bytes."""
        return [self._number(at, size) for at in self._places(entry, size)]

    def strings(self, entry: int) -> list[str]:
        """Return a field's vector of strings.

        Raises:
            IndexError: a string is outside the data.
            UnicodeDecodeError: a string is not UTF-8.
        """
        places = [self._sized(at) for at in self._places(entry, 4)]
        # The sum, because damaged data may refer to a long string many times.
        is_inside = all(at + size <= self._total for at, size in places)
        if not is_inside or sum(size for _, size in places) > self._total:
            raise IndexError
        return [self._part(at, size).decode() for at, size in places]

    def tables(self, entry: int) -> Iterator[_Table]:
        """Return a field's vector of tables."""
        return (_Table(self._part, self._total, at) for at in self._places(entry, 4))

    def table(self, entry: int) -> _Table:
        """Return a field that is a table.

        Raises:
            IndexError: the field is absent or outside the data.
        """
        at = self._field(entry)
        if at is None:
            raise IndexError
        return _Table(self._part, self._total, at)


def embedded_artifact(data: bytes) -> bytes | None:
    """Return the portable artifact in a serialized Exported; None if `data` is not an Exported."""
    place = place_of_module(lambda at, size: data[at : at + size], len(data))
    return None if place is None else data[place[0] : place[0] + place[1]]


def place_of_module(part: Callable[[int, int], bytes], total: int) -> tuple[int, int] | None:
    """Return the position and size of the portable artifact in a serialized Exported.

    Return None if the data is not a serialized Exported.

    Args:
        part: a function that returns bytes of the data, given their position and number.
        total: the size of the data in bytes.
    """
    if part(0, len(BYTECODE_MAGIC)) == BYTECODE_MAGIC:
        return None
    try:
        place = _Table(part, total).vector(_MODULE)
    except IndexError:
        return None
    if place is None:
        return None
    begin, length = place
    if part(begin, len(BYTECODE_MAGIC)) != BYTECODE_MAGIC or begin + length > total:
        return None
    return begin, length


def platforms_of(data: bytes) -> tuple[str, ...]:
    """Return the platforms of a serialized Exported, as jax names them; empty if it is damaged."""
    try:
        platforms = _root(data).strings(_PLATFORMS)
    except (IndexError, UnicodeDecodeError):
        return ()
    return tuple(platforms) if len(platforms) <= _MAX_PLATFORMS else ()


def trees_of(data: bytes) -> tuple[Any, Any, tuple[int, ...]] | None:
    """Return the nesting of a serialized Exported's arguments and results.

    Returns:
        The PyTreeDef of the arguments (a tuple of the positional ones, and a dict of the keyword
        arguments), the PyTreeDef of the result, and the numbers of the argument leaves that @main
        takes. None if a tree has a node of a user's class, or if the data is damaged.
    """
    try:
        root = _root(data)
        trees = _Trees(len(data))
        nested = trees.value(root.table(_ARGUMENTS), 0)
        result = trees.value(root.table(_RESULTS), 0)
        used = tuple(root.numbers(_USED, 2))
    except (IndexError, UnicodeDecodeError, _UnreadableTreeError):
        return None
    if not isinstance(nested, tuple) or [type(part) for part in nested] != [tuple, dict]:
        return None
    arguments: Any = jax.tree_util.tree_structure(nested)
    is_ascending = all(a < b for a, b in pairwise((-1, *used, arguments.num_leaves)))
    return (arguments, jax.tree_util.tree_structure(result), used) if is_ascending else None


def _root(data: bytes) -> _Table:
    return _Table(lambda at, size: data[at : at + size], len(data))


class _UnreadableTreeError(Exception):
    """A tree that cannot be read."""


class _Trees:
    """Reads the trees of data of `total` bytes."""

    def __init__(self, total: int) -> None:
        # Each node has an offset of 4 bytes; only damaged data refers to a node twice.
        self._remaining = total // 4

    def value(self, node: _Table, depth: int) -> Any:
        """Return the nested value that a node describes, with 0.0 for each leaf."""
        self._remaining -= 1
        if depth > _MAX_DEPTH or self._remaining < 0:
            raise _UnreadableTreeError
        kind = node.byte(_KIND)
        if kind == _LEAF:
            return 0.0
        if kind == _NONE:
            return None
        children = [self.value(child, depth + 1) for child in node.tables(_CHILDREN)]
        if kind == _TUPLE:
            return tuple(children)
        if kind == _LIST:
            return children
        keys = node.strings(_KEYS)
        if kind != _DICT or len(set(keys)) != len(children) or len(keys) != len(children):
            raise _UnreadableTreeError
        return dict(zip(keys, children, strict=True))
