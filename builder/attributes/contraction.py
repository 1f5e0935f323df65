"""Dimension numbers of dot products: DotDimensionNumbers, RaggedDotDimensionNumbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from builder.attributes.fields import construct, set_integers, unpackable
from builder.check import refusal
from builder.errors import ShapeInferenceError
from builder.support.signatures import per_signature


@dataclass(frozen=True, slots=True)
class DotDimensionNumbers:
    """The contracting and the batch dimensions of a dot product.

    Attributes:
        lhs_contracting_dimensions: the dimensions of lhs that are summed over.
        rhs_contracting_dimensions: the corresponding dimensions of rhs, in the same order.
        lhs_batch_dimensions: the dimensions of lhs that index independent products.
        rhs_batch_dimensions: the corresponding dimensions of rhs, in the same order.

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
        set_integers(self)

    @classmethod
    def of(cls, value: DotDimensionNumbersLike, op: str = "dot_general") -> DotDimensionNumbers:
        """Return `value` as DotDimensionNumbers; a pair of pairs of lists is converted.

        Args:
            value: DotDimensionNumbers, or lists of dimensions in the form
                ``((lhs contracting, rhs contracting), (lhs batch, rhs batch))``.
            op: the op, for messages.

        Raises:
            ShapeInferenceError: `value` is neither.
        """
        if isinstance(value, DotDimensionNumbers):
            return value
        key = _key(value)
        try:
            if key is not None:
                return _listed(*key)
        except ShapeInferenceError:
            pass  # raised below for the original value
        try:
            contracting, batch = map(unpackable, unpackable(value))
            (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = contracting, batch
        except (TypeError, ValueError):
            rule = "dimension_numbers must be DotDimensionNumbers or a pair of pairs"
            fix = (
                "write lists of dimensions as ((lhs contracting, rhs contracting), (lhs batch, rhs "
                "batch))"
            )
            raise refusal(op, rule, value, fix) from None
        return construct(cls, op, lhs_contracting, rhs_contracting, lhs_batch, rhs_batch)


_SEQUENCES = (list, tuple)
_listed = per_signature(DotDimensionNumbers)


def _key(numbers: Any) -> tuple[tuple[int, ...], ...] | None:
    """Return a pair of pairs of lists of ints as the fields of DotDimensionNumbers, else None.

    The usual argument, which many ops repeat. The loop is unrolled, because that is faster.
    """
    pairs: Any = numbers if type(numbers) in _SEQUENCES else ()
    if [len(pair) for pair in pairs if type(pair) in _SEQUENCES] != [2, 2] or len(pairs) != 2:
        return None
    (lhs, rhs), (lhs_batch, rhs_batch) = pairs
    fields = lhs, rhs, lhs_batch, rhs_batch
    for field in fields:
        if type(field) not in _SEQUENCES:
            return None
        for number in field:
            if type(number) is not int:
                return None
    return tuple(lhs), tuple(rhs), tuple(lhs_batch), tuple(rhs_batch)


DotDimensionNumbersLike = DotDimensionNumbers | Sequence[Sequence[Sequence[int]]]
"""DotDimensionNumbers, or ((lhs contracting, rhs contracting), (lhs batch, rhs batch))."""


@dataclass(frozen=True, slots=True)
class RaggedDotDimensionNumbers:
    """The dimensions of a dot product with one dimension divided into groups of different sizes.

    Attributes:
        dot_dimension_numbers: the numbers of the dot product; also accepted as the pair of pairs
            that `dot_general` accepts.
        lhs_ragged_dimensions: the dimension of lhs that is divided into groups: exactly one.
        rhs_group_dimensions: the dimension of rhs that indexes the groups: one if the ragged
            dimension is neither contracting nor batch, otherwise none.

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
        kind = type(self).__name__
        numbers = DotDimensionNumbers.of(self.dot_dimension_numbers, op=kind)
        object.__setattr__(self, "dot_dimension_numbers", numbers)
        set_integers(self, "lhs_ragged_dimensions", "rhs_group_dimensions")

    @classmethod
    def of(cls, value: RaggedDotDimensionNumbersLike) -> RaggedDotDimensionNumbers:
        """Return `value` as RaggedDotDimensionNumbers; a triple of its fields is converted.

        Raises:
            ShapeInferenceError: `value` is neither.
        """
        if isinstance(value, RaggedDotDimensionNumbers):
            return value
        try:
            numbers, ragged, group = unpackable(value)
        except (TypeError, ValueError):
            rule = "dimension_numbers must be RaggedDotDimensionNumbers or a triple of its fields"
            fix = "write for instance ((([1], [1]), ([], [])), [0], [0])"
            raise refusal("ragged_dot", rule, value, fix) from None
        return construct(cls, "ragged_dot", numbers, ragged, group)


RaggedDotDimensionNumbersLike = RaggedDotDimensionNumbers | Sequence[Any]
"""RaggedDotDimensionNumbers, or (dot dimension numbers, ragged dimensions, group dimensions)."""
