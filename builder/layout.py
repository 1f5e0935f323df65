"""How the elements of an array lie in memory.

Only the order of the dimensions is described here: `minor_to_major`, the dimension that varies
fastest first. Shapes without a layout have the default one, major to minor.

Shapes and Layout: Minor-to-major dimension ordering.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from builder.errors import ShapeInferenceError, shown

__all__ = ["MOST_DIMENSIONS", "Layout"]

MOST_DIMENSIONS: Final = 65536
"""More than any array has: of a range or an iterator that goes on no more is read than this."""


class Layout:
    """The memory order of an array's dimensions.

    Args:
        minor_to_major: the dimension numbers, the fastest varying first; a permutation.

    Raises:
        ShapeInferenceError: not a permutation of 0 .. rank-1.

    Example:
        >>> import builder as xb
        >>> xb.Layout([0, 1])
        {0,1}
        >>> xb.Layout([1, 0]).is_default
        True
    """

    __slots__ = ("is_default", "minor_to_major")

    minor_to_major: tuple[int, ...]
    is_default: bool

    def __init__(self, minor_to_major: Iterable[int]) -> None:
        try:
            if hasattr(minor_to_major, "opcode"):
                raise TypeError  # of a tuple each element would be recorded
            order = tuple(islice(minor_to_major, MOST_DIMENSIONS))
        except TypeError:
            raise ShapeInferenceError(
                "layout: minor_to_major is a sequence of dimension numbers, "
                f"got {shown(minor_to_major)}",
                op="layout",
            ) from None
        rank = len(order)
        if any(isinstance(d, bool) or not isinstance(d, int) for d in order) or sorted(
            order
        ) != list(range(rank)):
            raise ShapeInferenceError(
                f"layout: minor_to_major must be a permutation of the dimensions "
                f"0 to {rank - 1}, got {{{','.join(map(shown, order[:100]))}}}"
                if rank
                else f"layout: minor_to_major must hold dimension numbers, got {shown(order)}",
                op="layout",
            )
        self.minor_to_major = order
        self.is_default = order == tuple(range(rank - 1, -1, -1))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.minor_to_major == other.minor_to_major

    def __hash__(self) -> int:
        return hash(self.minor_to_major)

    def __repr__(self) -> str:
        return "{" + ",".join(map(str, self.minor_to_major)) + "}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Layout, (self.minor_to_major,))
