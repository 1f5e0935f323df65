"""Attribute bundles: what an op says besides its operands, where one list would not do.

All are frozen dataclasses with the field names of ``xla_data.proto``. Lists become tuples, so that
a bundle can be hashed, and kept in the attributes of an op.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from builder.errors import ShapeInferenceError

__all__ = [
    "DotAlgorithm",
    "DotDimensionNumbers",
    "DotDimensionNumbersLike",
    "PaddingConfig",
    "PaddingConfigDimension",
    "PaddingConfigLike",
    "Precision",
    "PrecisionLike",
]


def _set_integers(bundle: Any, op: str, *names: str) -> None:
    """Makes tuples of ints of the named fields of a frozen dataclass."""
    from builder.shape_inference.check import integers  # inference builds on this module

    for name in names:
        object.__setattr__(bundle, name, integers(op, name, getattr(bundle, name)))


@dataclass(frozen=True, slots=True)
class PaddingConfigDimension:
    """The padding of one dimension.

    Attributes:
        edge_padding_low: elements added before the first; taken away if negative.
        edge_padding_high: elements added after the last; taken away if negative.
        interior_padding: elements added between each two; not negative.
    """

    edge_padding_low: int = 0
    edge_padding_high: int = 0
    interior_padding: int = 0

    def __post_init__(self) -> None:
        from builder.shape_inference.check import integer  # inference builds on this module

        for name in ("edge_padding_low", "edge_padding_high", "interior_padding"):
            object.__setattr__(self, name, integer("pad", name, getattr(self, name)))

    def __str__(self) -> str:
        return f"({self.edge_padding_low}, {self.edge_padding_high}, {self.interior_padding})"


@dataclass(frozen=True, slots=True)
class PaddingConfig:
    """The padding of every dimension of an array.

    Attributes:
        dimensions: a PaddingConfigDimension for each dimension; a triple (low, high, interior)
            stands for one.

    Example:
        >>> import builder as xb
        >>> xb.PaddingConfig([(1, 0, 2)]).dimensions[0].interior_padding
        2
    """

    dimensions: tuple[PaddingConfigDimension, ...] = ()

    def __post_init__(self) -> None:
        given: Any = self.dimensions
        if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
            raise ShapeInferenceError(
                f"pad: padding_config must be a PaddingConfig or a sequence of triples "
                f"(low, high, interior), got {given!r}",
                op="pad",
            )
        object.__setattr__(self, "dimensions", tuple(_padding_dimension(d) for d in given))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.dimensions))}]"


def _padding_dimension(value: Any) -> PaddingConfigDimension:
    if isinstance(value, PaddingConfigDimension):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 3:
        return PaddingConfigDimension(*value)
    raise ShapeInferenceError(
        f"pad: the padding of a dimension is three numbers, got {value!r}\n"
        f"fix: write (low, high, interior), for instance (1, 1, 0)",
        op="pad",
    )


PaddingConfigLike = PaddingConfig | Sequence[PaddingConfigDimension | Sequence[int]]
"""A PaddingConfig, or for each dimension a triple (low, high, interior)."""


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
        _set_integers(self, "dot_general", *self.__slots__)

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


class Precision(enum.Enum):
    """How exactly a device multiplies f32 operands, where it has a choice: XLA's PrecisionConfig.

    DEFAULT is the fastest, HIGHEST the most exact. A CPU computes the same with each.
    """

    DEFAULT = "DEFAULT"
    HIGH = "HIGH"
    HIGHEST = "HIGHEST"

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    @classmethod
    def pair(cls, op: str, value: PrecisionLike) -> tuple[Precision, Precision]:
        """The precisions of both operands: `value` twice if it is one, DEFAULT if it is None.

        Raises:
            ShapeInferenceError: it is neither a Precision nor a pair of them.
        """
        if value is None:
            return _DEFAULT_PAIR
        if isinstance(value, Precision):
            return value, value
        if isinstance(value, Sequence) and len(value) == 2:
            lhs, rhs = value
            if isinstance(lhs, Precision) and isinstance(rhs, Precision):
                return lhs, rhs
        raise ShapeInferenceError(
            f"{op}: precision must be a Precision, or a pair of them for lhs and rhs, "
            f"got {value!r}\n"
            f"fix: write xb.Precision.HIGHEST",
            op=op,
        )


PrecisionLike = Precision | Sequence[Precision] | None
"""A Precision for both operands, a pair for the two, or None for the default."""

_DEFAULT_PAIR = (Precision.DEFAULT, Precision.DEFAULT)


class DotAlgorithm(enum.Enum):
    """How a dot product is computed, exactly: XLA's PrecisionConfig.Algorithm.

    The names say the type that lhs and rhs are rounded to, that in which products are added, and
    of how many products (x3, x6, x9) of shorter numbers each is put together. Which of them a
    device can do depends on the device.
    """

    DOT_ANY_F8_ANY_F8_F32 = "dot_any_f8_any_f8_f32"
    DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM = "dot_any_f8_any_f8_f32_fast_accum"
    DOT_F16_F16_F16 = "dot_f16_f16_f16"
    DOT_F16_F16_F32 = "dot_f16_f16_f32"
    DOT_BF16_BF16_BF16 = "dot_bf16_bf16_bf16"
    DOT_BF16_BF16_F32 = "dot_bf16_bf16_f32"
    DOT_BF16_BF16_F32_X3 = "dot_bf16_bf16_f32_x3"
    DOT_BF16_BF16_F32_X6 = "dot_bf16_bf16_f32_x6"
    DOT_BF16_BF16_F32_X9 = "dot_bf16_bf16_f32_x9"
    DOT_TF32_TF32_F32 = "dot_tf32_tf32_f32"
    DOT_TF32_TF32_F32_X3 = "dot_tf32_tf32_f32_x3"
    DOT_F32_F32_F32 = "dot_f32_f32_f32"
    DOT_F64_F64_F64 = "dot_f64_f64_f64"

    def __repr__(self) -> str:
        return f"DotAlgorithm.{self.name}"

    @classmethod
    def of(cls, value: DotAlgorithm | str) -> DotAlgorithm:
        """`value` itself, or the algorithm of that name.

        Raises:
            ShapeInferenceError: there is no such algorithm.
        """
        if isinstance(value, DotAlgorithm):
            return value
        for algorithm in cls:
            if isinstance(value, str) and algorithm.value == value:
                return algorithm
        raise ShapeInferenceError(
            f"dot_general: algorithm must be one of {', '.join(a.value for a in cls)}, "
            f"got {value!r}",
            op="dot_general",
        )
