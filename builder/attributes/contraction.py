"""Dimension numbers of dot products: DotDimensionNumbers, RaggedDotDimensionNumbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from builder.attributes.fields import set_integers, unpackable
from builder.errors import ShapeInferenceError, brief

__all__ = [
    "DotDimensionNumbers",
    "DotDimensionNumbersLike",
    "RaggedDotDimensionNumbers",
    "RaggedDotDimensionNumbersLike",
]


@dataclass(frozen=True, slots=True)
class DotDimensionNumbers:
    """Which dimensions a dot product sums over, and which it is done for one by one.

    Attributes:
        lhs_contracting_dimensions: the dimensions of lhs that are summed over.
        rhs_contracting_dimensions: those of rhs that they go with, in the same order.
        lhs_batch_dimensions: the dimensions of lhs that number independent products.
        rhs_batch_dimensions: those of rhs that they go with, in the same order.

    Example:
        >>> import builder as xb
        >>> xb.DotDimensionNumbers([2], [1], [0], [0]).lhs_contracting_dimensions
        (2,)
    """

    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()
    lhs_batch_dimensions: tuple[int, ...] = ()
    rhs_batch_dimensions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        set_integers(self, "dot_general", *self.__match_args__)

    @classmethod
    def of(cls, value: DotDimensionNumbersLike, op: str = "dot_general") -> DotDimensionNumbers:
        """`value` itself, or those that ``((lhs, rhs contracting), (lhs, rhs batch))`` stands for.

        Args:
            value: one or the other.
            op: for messages.

        Raises:
            ShapeInferenceError: it is neither.
        """
        if isinstance(value, DotDimensionNumbers):
            return value
        try:
            contracting, batch = unpackable(value)
            lhs_contracting, rhs_contracting = unpackable(contracting)
            lhs_batch, rhs_batch = unpackable(batch)
        except (TypeError, ValueError):
            raise ShapeInferenceError(
                f"{op}: dimension_numbers must be DotDimensionNumbers or a pair of pairs, "
                f"got {brief(value)}\n"
                f"fix: write ((lhs contracting, rhs contracting), (lhs batch, rhs batch)), for "
                f"instance (([1], [0]), ([], []))",
                op=op,
            ) from None
        return cls(lhs_contracting, rhs_contracting, lhs_batch, rhs_batch)


DotDimensionNumbersLike = DotDimensionNumbers | Sequence[Sequence[Sequence[int]]]
"""DotDimensionNumbers, or ((lhs contracting, rhs contracting), (lhs batch, rhs batch))."""


@dataclass(frozen=True, slots=True)
class RaggedDotDimensionNumbers:
    """The dimensions of a dot product of which one is cut into groups of unequal sizes.

    Attributes:
        dot_dimension_numbers: those of the dot product; also the pair of pairs that `dot_general`
            takes.
        lhs_ragged_dimensions: the dimension of lhs that is cut into groups: one.
        rhs_group_dimensions: the dimension of rhs that numbers the groups: one if the ragged
            dimension is neither contracting nor batch, else none.

    Example:
        >>> import builder as xb
        >>> numbers = xb.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
        >>> numbers.dot_dimension_numbers.rhs_contracting_dimensions
        (1,)
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: tuple[int, ...] = ()
    rhs_group_dimensions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        numbers = DotDimensionNumbers.of(self.dot_dimension_numbers, op="ragged_dot")
        object.__setattr__(self, "dot_dimension_numbers", numbers)
        set_integers(self, "ragged_dot", "lhs_ragged_dimensions", "rhs_group_dimensions")

    @classmethod
    def of(cls, value: RaggedDotDimensionNumbersLike) -> RaggedDotDimensionNumbers:
        """`value` itself, or those that ``(dot dimension numbers, ragged, group)`` stands for.

        Raises:
            ShapeInferenceError: it is neither.
        """
        if isinstance(value, RaggedDotDimensionNumbers):
            return value
        try:
            numbers, ragged, group = unpackable(value)
        except (TypeError, ValueError):
            raise ShapeInferenceError(
                f"ragged_dot: dimension_numbers must be RaggedDotDimensionNumbers or a triple "
                f"(dot dimension numbers, ragged dimensions, group dimensions), "
                f"got {brief(value)}\n"
                f"fix: write for instance xb.RaggedDotDimensionNumbers((([1], [1]), ([], [])), "
                f"[0], [0])",
                op="ragged_dot",
            ) from None
        return cls(numbers, ragged, group)


RaggedDotDimensionNumbersLike = RaggedDotDimensionNumbers | Sequence[Any]
"""RaggedDotDimensionNumbers, or (dot dimension numbers, ragged dimensions, group dimensions)."""
