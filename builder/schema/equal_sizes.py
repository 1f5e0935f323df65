"""Which sizes of an op's operands and result are equal, as part of the op's definition.

A function of type `EqualSizes` yields pairs of sizes. `builder.inspection.open_sizes` joins the
pairs of all ops of a computation with unbounded sizes, and `lowering.minimize` those of a
computation with fixed sizes, to make equal sizes smaller together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol


class UnknownSize:
    """An unbounded size: equal sizes have the same `root`.

    Attributes:
        size: the number that a root must be; None for any.
    """

    __slots__ = ("_parent", "size")

    def __init__(self) -> None:
        self._parent: UnknownSize | None = None
        self.size: int | None = None

    @property
    def root(self) -> UnknownSize:
        """The object that stands for all sizes that are equal to this one."""
        root = self
        while root._parent is not None:
            if root._parent._parent is not None:
                root._parent = root._parent._parent  # the next search is shorter
            root = root._parent
        return root


Size = int | UnknownSize
Sizes = tuple[Size, ...]
"""The size of each dimension of an array."""

Pairs = Iterable[tuple[Size | None, Size | None]]
"""Sizes that must be equal. None is a number that is not a size; it is equal to nothing."""


def join(one: Size, other: Size) -> None:
    """Note that two sizes are equal."""
    if isinstance(one, int):
        one, other = other, one
    if isinstance(one, int):
        return
    root = one.root
    if isinstance(other, int):
        root.size = other
        return
    other_root = other.root
    if root is not other_root:
        if root.size is None:
            root.size = other_root.size
        other_root._parent = root


Argument = tuple[Size | None, ...]
"""An array that a computation is applied to: its value, if it is a size, and then its sizes."""


class SizedOp(Protocol):
    """An op with the sizes of the arrays in its operands and in its result."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the op."""

    @property
    def operands(self) -> Sequence[Sizes]:
        """The sizes of the arrays in the operands."""

    @property
    def results(self) -> Sequence[Sizes]:
        """The sizes of the arrays in the result."""

    def runtime_sizes(self) -> Sequence[Size | None]:
        """Return the elements of the operands that are sizes; see `Schema.first_size`."""

    def arguments(self, first: int, last: int | None = None) -> Sequence[Argument]:
        """Return the arrays in a range of operands as arguments of a computation."""

    def applied(
        self, computation: Any, arguments: Sequence[Argument], results: Sequence[Sizes]
    ) -> Pairs:
        """Yield what a computation makes equal in its arguments and results."""


EqualSizes = Callable[[SizedOp], Pairs]
"""A function of an op that yields the sizes that the op requires to be equal."""


def no_equal_sizes(_: SizedOp) -> Pairs:
    """Yield nothing."""
    return ()


def pairs(arrays: Sequence[Sizes], like: Sizes, changed: Iterable[int] = ()) -> Pairs:
    """Yield the sizes of the arrays that have the rank of another, with those of the other.

    Args:
        arrays: the sizes of the arrays.
        like: the sizes of the other array.
        changed: the dimensions whose sizes differ.
    """
    kept = set(range(len(like))).difference(changed)
    for array in arrays:
        if len(array) == len(like):
            for dimension in kept:
                yield array[dimension], like[dimension]


def all_equal_sizes(op: SizedOp) -> Pairs:
    """Yield all sizes of the operands and the result, except for scalars among them."""
    if op.results:
        yield from pairs([*op.operands, *op.results[1:]], op.results[0])


def equal_to_first(op: SizedOp) -> Pairs:
    """Yield the sizes of the first operand and the result."""
    return pairs(op.operands[:1], op.results[0])


def equal_sizes_except(attribute: str) -> EqualSizes:
    """Return a function for ops that keep all sizes but that of the dimension in an attribute."""

    def equal_sizes(op: SizedOp) -> Pairs:
        changed = [op.attributes[attribute]]
        return pairs([*op.operands, *op.results[1:]], op.results[0], changed)

    return equal_sizes


def sizes_of_result(op: SizedOp) -> Pairs:
    """Yield the sizes of the result with those that are operands; see `Schema.first_size`."""
    return zip(op.results[0], op.runtime_sizes(), strict=True)
