"""Dimension numbers of gathers and scatters: GatherDimensionNumbers, ScatterDimensionNumbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from builder.attributes.fields import set_integers
from builder.errors import ShapeInferenceError, brief

__all__ = [
    "GatherDimensionNumbers",
    "GatherDimensionNumbersLike",
    "ScatterDimensionNumbers",
    "ScatterDimensionNumbersLike",
]

Numbers = TypeVar("Numbers", "GatherDimensionNumbers", "ScatterDimensionNumbers")


@dataclass(frozen=True, slots=True)
class GatherDimensionNumbers:
    """What the dimensions of a gather's operands and result mean.

    Attributes:
        offset_dims: the dimensions of the result that count within a slice, ascending.
        collapsed_slice_dims: the dimensions of the operand that a slice takes one element of and
            that the result does not have, ascending.
        start_index_map: for each number of an index vector the dimension of the operand that it is
            a start index for. Slices begin at 0 in the others.
        index_vector_dim: the dimension of start_indices along which an index vector lies; their
            number of dimensions where each single number is a vector.
        operand_batching_dims: the dimensions of the operand that go with dimensions of
            start_indices, ascending: an index vector takes its slice where it stands itself.
        start_indices_batching_dims: those dimensions of start_indices, in the same order.

    Example:
        >>> import builder as xb
        >>> rows = xb.GatherDimensionNumbers([1], [0], [0], index_vector_dim=1)
        >>> rows.offset_dims
        (1,)
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _set_fields(self, "gather")

    @classmethod
    def of(cls, value: GatherDimensionNumbersLike) -> GatherDimensionNumbers:
        """`value` itself, or those of a mapping from the names of the fields.

        Raises:
            ShapeInferenceError: it is neither.
        """
        return value if isinstance(value, cls) else _from_mapping(cls, "gather", value)


@dataclass(frozen=True, slots=True)
class ScatterDimensionNumbers:
    """What the dimensions of a scatter's operands and updates mean.

    Attributes:
        update_window_dims: the dimensions of updates that count within a window, ascending.
        inserted_window_dims: the dimensions of the operand that a window takes one element of and
            that updates do not have, ascending.
        scatter_dims_to_operand_dims: for each number of an index vector the dimension of the
            operand that it is a start index for. Windows begin at 0 in the others.
        index_vector_dim: the dimension of scatter_indices along which an index vector lies; their
            number of dimensions where each single number is a vector.
        input_batching_dims: the dimensions of the operand that go with dimensions of
            scatter_indices, ascending: an index vector puts its window where it stands itself.
        scatter_indices_batching_dims: those dimensions of scatter_indices, in the same order.

    Example:
        >>> import builder as xb
        >>> rows = xb.ScatterDimensionNumbers([1], [0], [0], index_vector_dim=1)
        >>> rows.inserted_window_dims
        (0,)
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _set_fields(self, "scatter")

    @classmethod
    def of(cls, value: ScatterDimensionNumbersLike) -> ScatterDimensionNumbers:
        """`value` itself, or those of a mapping from the names of the fields.

        Raises:
            ShapeInferenceError: it is neither.
        """
        return value if isinstance(value, cls) else _from_mapping(cls, "scatter", value)


GatherDimensionNumbersLike = GatherDimensionNumbers | Mapping[str, Any]
"""GatherDimensionNumbers, or a mapping from the names of their fields."""

ScatterDimensionNumbersLike = ScatterDimensionNumbers | Mapping[str, Any]
"""ScatterDimensionNumbers, or a mapping from the names of their fields."""


def _set_fields(numbers: Any, op: str) -> None:
    from builder.check import integer  # inference builds on this module

    set_integers(numbers, op, *(n for n in numbers.__match_args__ if n != "index_vector_dim"))
    vector_dim = integer(op, "index_vector_dim", numbers.index_vector_dim)
    object.__setattr__(numbers, "index_vector_dim", vector_dim)


def _from_mapping(cls: type[Numbers], op: str, value: Any) -> Numbers:
    if isinstance(value, Mapping):
        names = list(cls.__match_args__)
        unknown = [n for n in value if n not in names]
        missing = [n for n in names[:4] if n not in value]
        if not unknown and not missing:
            return cls(**value)
        found = f"unknown {brief(unknown)}" if unknown else f"no {', '.join(missing)}"
        rule = f"dimension_numbers must have the fields of {cls.__name__}, got {found}"
    else:
        rule = f"dimension_numbers must be {cls.__name__}, got {brief(value)}"
    raise ShapeInferenceError(
        f"{op}: {rule}\nfix: write xb.{cls.__name__}({', '.join(cls.__match_args__)})", op=op
    )
