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
        """Return `value` as dimension numbers; a mapping of field names to values is converted.

        Raises:
            ShapeInferenceError: `value` is neither dimension numbers nor such a mapping.
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
        collapsed_slice_dims: the dimensions of the operand that the result omits, ascending. A
            slice has size 1 along them.
        start_index_map: for each component of an index vector, the dimension of the operand along
            which the component is the start of the slice. Along other dimensions slices begin at 0.
        index_vector_dim: the dimension of start_indices that contains the index vectors. The rank
            of start_indices if each element is an index vector.
        operand_batching_dims: the batch dimensions of the operand, ascending. An index vector at
            position i along a batch dimension of start_indices reads a slice at position i along
            the corresponding batch dimension of the operand.
        start_indices_batching_dims: the batch dimensions of start_indices, in the order of
            operand_batching_dims.

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
        inserted_window_dims: the dimensions of the operand that updates omit, ascending. A window
            has size 1 along them.
        scatter_dims_to_operand_dims: for each component of an index vector, the dimension of the
            operand along which the component is the start of the window. Along other dimensions
            windows begin at 0.
        index_vector_dim: the dimension of scatter_indices that contains the index vectors. The rank
            of scatter_indices if each element is an index vector.
        input_batching_dims: the batch dimensions of the operand, ascending. An index vector at
            position i along a batch dimension of scatter_indices writes a window at position i
            along the corresponding batch dimension of the operand.
        scatter_indices_batching_dims: the batch dimensions of scatter_indices, in the order of
            input_batching_dims.

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
"""GatherDimensionNumbers, or a mapping of field names to values."""

ScatterDimensionNumbersLike = ScatterDimensionNumbers | Mapping[str, Any]
"""ScatterDimensionNumbers, or a mapping of field names to values."""
