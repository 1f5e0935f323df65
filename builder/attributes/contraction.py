"""Dimension numbers of contractions: DotDimensionNumbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builder.attributes.fields import set_integers
from builder.errors import ShapeInferenceError

__all__ = ["DotDimensionNumbers", "DotDimensionNumbersLike"]


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
        set_integers(self, "dot_general", *self.__slots__)

    @classmethod
    def of(cls, value: DotDimensionNumbersLike) -> DotDimensionNumbers:
        """`value` itself, or those that ``((lhs, rhs contracting), (lhs, rhs batch))`` stands for.

        Raises:
            ShapeInferenceError: it is neither.
        """
        if isinstance(value, DotDimensionNumbers):
            return value
        try:
            (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = value
        except (TypeError, ValueError):
            raise ShapeInferenceError(
                f"dot_general: dimension_numbers must be DotDimensionNumbers or a pair of pairs, "
                f"got {value!r}\n"
                f"fix: write ((lhs contracting, rhs contracting), (lhs batch, rhs batch)), for "
                f"instance (([1], [0]), ([], []))",
                op="dot_general",
            ) from None
        return cls(lhs_contracting, rhs_contracting, lhs_batch, rhs_batch)  # type: ignore[arg-type]  # made tuples there


DotDimensionNumbersLike = DotDimensionNumbers | Sequence[Sequence[Sequence[int]]]
"""DotDimensionNumbers, or ((lhs contracting, rhs contracting), (lhs batch, rhs batch))."""
