"""How exactly products are computed: Precision, DotAlgorithm."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from builder.errors import ShapeInferenceError, brief

__all__ = ["DotAlgorithm", "Precision", "PrecisionLike"]


class Precision(enum.Enum):
    """How exactly a device multiplies f32 operands, where it has a choice: XLA's PrecisionConfig.

    DEFAULT is the fastest, HIGHEST the most exact. A CPU computes the same with each.
    """

    DEFAULT = "DEFAULT"
    HIGH = "HIGH"
    HIGHEST = "HIGHEST"

    # Every dot product looks up a pair: an enumeration's own hash is ten times as slow.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    @classmethod
    def pair(cls, value: PrecisionLike, op: str = "dot") -> tuple[Precision, Precision]:
        """The precisions of both operands: `value` twice if it is one, DEFAULT if it is None.

        Raises:
            ShapeInferenceError: it is neither a Precision, nor its name, nor a pair of them.
        """
        if value is None:
            return _DEFAULT_PAIR
        given = value
        if isinstance(value, (Precision, str)):
            value = (value, value)
        if isinstance(value, Sequence) and len(value) == 2:
            lhs, rhs = (cls.__members__.get(one) if isinstance(one, str) else one for one in value)
            if isinstance(lhs, Precision) and isinstance(rhs, Precision):
                return lhs, rhs
        raise ShapeInferenceError(
            f"{op}: precision must be a Precision, or a pair of them for lhs and rhs, "
            f"got {brief(given)}\n"
            f"fix: write xb.Precision.HIGHEST, or the name as text",
            op=op,
        )


PrecisionLike = Precision | str | Sequence[Precision | str] | None
"""A Precision or its name for both operands, a pair for the two, or None for the default."""


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
            f"got {brief(value)}",
            op="dot_general",
        )
