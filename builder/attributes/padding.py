"""Padding of arrays: PaddingConfig."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from builder.attributes.fields import construct, sequence_or_none, set_integers
from builder.check import refusal


@dataclass(frozen=True, slots=True)
class PaddingConfigDimension:
    """The padding of one dimension.

    Attributes:
        edge_padding_low: the number of elements to add before the first element. A negative number
            removes elements.
        edge_padding_high: the number of elements to add after the last element. A negative number
            removes elements.
        interior_padding: the number of elements to add between adjacent elements; not negative.
    """

    edge_padding_low: int = 0
    edge_padding_high: int = 0
    interior_padding: int = 0

    def __post_init__(self) -> None:
        set_integers(self)

    def __str__(self) -> str:
        return f"({self.edge_padding_low}, {self.edge_padding_high}, {self.interior_padding})"


@dataclass(frozen=True, slots=True)
class PaddingConfig:
    """The padding of every dimension of an array.

    Attributes:
        dimensions: a PaddingConfigDimension for each dimension; a triple (low, high, interior)
            is converted to one.

    Example:
        >>> import builder as xb
        >>> xb.PaddingConfig([(1, 0, 2)]).dimensions[0].interior_padding
        2
    """

    dimensions: tuple[PaddingConfigDimension, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimensions", _as_dimensions("PaddingConfig", self.dimensions))

    @classmethod
    def of(cls, value: PaddingConfigLike, op: str = "PaddingConfig") -> PaddingConfig:
        """Return `value` as a PaddingConfig; a sequence of triples is converted.

        Raises:
            ShapeInferenceError: `value` is neither a PaddingConfig nor a sequence of triples.
        """
        return value if isinstance(value, PaddingConfig) else cls(_as_dimensions(op, value))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.dimensions))}]"


def _as_dimensions(op: str, value: Any) -> tuple[PaddingConfigDimension, ...]:
    dimensions = sequence_or_none(value)
    if dimensions is None:
        rule = "padding_config must be a PaddingConfig or a sequence of (low, high, interior)"
        raise refusal(op, rule, value)
    return tuple([_padding_dimension(op, dimension) for dimension in dimensions])


def _padding_dimension(op: str, value: Any) -> PaddingConfigDimension:
    if isinstance(value, PaddingConfigDimension):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 3:
        return construct(PaddingConfigDimension, op, *value)
    fix = "write (low, high, interior), for instance (1, 1, 0)"
    raise refusal(op, "the padding of a dimension must be three numbers", value, fix)


PaddingConfigLike = PaddingConfig | Sequence[PaddingConfigDimension | Sequence[int]]
"""A PaddingConfig, or for each dimension a triple (low, high, interior)."""
