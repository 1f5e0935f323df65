"""Dimension numbers of gathers and scatters: GatherDimensionNumbers, ScatterDimensionNumbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from builder.attributes.fields import construct, set_integers
from builder.check import refusal
from builder.errors import ShapeInferenceError, brief, error_of


class _DimensionNumbers:
    """The base of the dimension numbers of gathers and scatters."""

    __slots__ = ()
    _op: ClassVar[str]

    def __post_init__(self) -> None:
        set_integers(self)

    @classmethod
    def of(cls, value: Self | Mapping[str, Any]) -> Self:
        """Return `value` itself, or the numbers in a mapping from the names of the fields.

        Raises:
            ShapeInferenceError: `value` is neither.
        """
        if isinstance(value, cls):
            return value
        fields: tuple[str, ...] = cls.__match_args__  # type: ignore[attr-defined]  # of dataclasses
        fix = f"write xb.{cls.__name__}({', '.join(fields)})"
        if not isinstance(value, Mapping):
            raise refusal(cls._op, f"dimension_numbers must be {cls.__name__}", value, fix)
        unknown = [name for name in value if name not in fields]
        missing = [name for name in fields[:4] if name not in value]
        if unknown or missing:
            got = f"unknown {brief(unknown)}" if unknown else f"no {', '.join(missing)}"
            rule = f"dimension_numbers must have the fields of {cls.__name__}, got {got}"
            raise error_of(ShapeInferenceError, cls._op, rule, fix)
        return construct(cls, cls._op, **value)


@dataclass(frozen=True, slots=True)
class GatherDimensionNumbers(_DimensionNumbers):
    """The meaning of the dimensions of a gather's operands and result.

    Attributes:
        offset_dims: the dimensions of the result that index within a slice, ascending.
        collapsed_slice_dims: the dimensions of the operand in which a slice has size 1 and that
            the result does not have, ascending.
        start_index_map: for each component of an index vector, the dimension of the operand whose
            start index it is. Slices begin at 0 in the other dimensions.
        index_vector_dim: the dimension of start_indices that contains the index vectors. The rank
            of start_indices if each element is an index vector.
        operand_batching_dims: the dimensions of the operand that correspond to dimensions of
            start_indices, ascending: an index vector reads its slice at its own position there.
        start_indices_batching_dims: those dimensions of start_indices, in the same order.

    Example:
        >>> import builder as xb
        >>> rows = xb.GatherDimensionNumbers([1], [0], [0], index_vector_dim=1)
        >>> rows.offset_dims
        (1,)
    """

    _op = "gather"

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScatterDimensionNumbers(_DimensionNumbers):
    """The meaning of the dimensions of a scatter's operands and updates.

    Attributes:
        update_window_dims: the dimensions of updates that index within a window, ascending.
        inserted_window_dims: the dimensions of the operand in which a window has size 1 and that
            updates do not have, ascending.
        scatter_dims_to_operand_dims: for each component of an index vector, the dimension of the
            operand whose start index it is. Windows begin at 0 in the other dimensions.
        index_vector_dim: the dimension of scatter_indices that contains the index vectors. The rank
            of scatter_indices if each element is an index vector.
        input_batching_dims: the dimensions of the operand that correspond to dimensions of
            scatter_indices, ascending: an index vector writes its window at its own position.
        scatter_indices_batching_dims: those dimensions of scatter_indices, in the same order.

    Example:
        >>> import builder as xb
        >>> rows = xb.ScatterDimensionNumbers([1], [0], [0], index_vector_dim=1)
        >>> rows.inserted_window_dims
        (0,)
    """

    _op = "scatter"

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


GatherDimensionNumbersLike = GatherDimensionNumbers | Mapping[str, Any]
"""GatherDimensionNumbers, or a mapping from the names of their fields."""

ScatterDimensionNumbersLike = ScatterDimensionNumbers | Mapping[str, Any]
"""ScatterDimensionNumbers, or a mapping from the names of their fields."""
