"""The precision of products: Precision, DotAlgorithm."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Literal

from builder.check import refusal


class Precision(enum.Enum):
    """How exactly a device multiplies f32 operands: XLA's PrecisionConfig.

    DEFAULT is the fastest, HIGHEST the most exact. On a CPU all of them give the same result.
    """

    DEFAULT = "DEFAULT"
    HIGH = "HIGH"
    HIGHEST = "HIGHEST"

    # Every dot product looks up a pair, and the hash of enum.Enum is slow.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    @classmethod
    def pair(cls, value: PrecisionLike, op: str = "dot") -> tuple[Precision, Precision]:
        """Return the precisions of lhs and rhs. A single `value` sets both; None means DEFAULT.

        Raises:
            ShapeInferenceError: `value` is not a Precision, a name, or a pair of these.
        """
        if value is None:
            return _DEFAULT_PAIR
        if isinstance(value, (Precision, str)) and value in _PAIRS:
            return _PAIRS[value]
        pair = (value, value) if isinstance(value, str) else value
        if isinstance(pair, Sequence) and len(pair) == 2:
            lhs, rhs = (cls.__members__.get(p) if isinstance(p, str) else p for p in pair)
            if isinstance(lhs, Precision) and isinstance(rhs, Precision):
                return lhs, rhs
        rule = "precision must be a Precision, or a pair of them for lhs and rhs"
        raise refusal(op, rule, value, "write for instance 'HIGHEST' or ('HIGH', 'HIGHEST')")


PrecisionName = Literal["DEFAULT", "HIGH", "HIGHEST"]
PrecisionLike = Precision | PrecisionName | Sequence[Precision | PrecisionName] | None
"""A Precision or its name for both operands, a pair for lhs and rhs, or None for DEFAULT."""


_PAIRS: dict[Precision | str, tuple[Precision, Precision]] = {
    one: (precision, precision) for precision in Precision for one in (precision, precision.name)
}
_DEFAULT_PAIR = _PAIRS[Precision.DEFAULT]


class DotAlgorithm(enum.Enum):
    """The exact algorithm of a dot product: XLA's PrecisionConfig.Algorithm.

    A name lists the type that lhs and rhs are rounded to, the type in which products are added, and
    the number of products of lower precision (X3, X6, X9) that form each product. Which of the
    algorithms are supported depends on the device.
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
    def of(cls, value: DotAlgorithmLike) -> DotAlgorithm:
        """Return the algorithm for `value`: a member, or its name in lower case.

        Raises:
            ShapeInferenceError: no algorithm has this name.
        """
        try:
            return cls(value)
        except ValueError:
            names = ", ".join(algorithm.value for algorithm in cls)
            raise refusal("dot_general", f"algorithm must be one of {names}", value) from None


DotAlgorithmLike = (
    DotAlgorithm
    | Literal[
        "dot_any_f8_any_f8_f32",
        "dot_any_f8_any_f8_f32_fast_accum",
        "dot_f16_f16_f16",
        "dot_f16_f16_f32",
        "dot_bf16_bf16_bf16",
        "dot_bf16_bf16_f32",
        "dot_bf16_bf16_f32_x3",
        "dot_bf16_bf16_f32_x6",
        "dot_bf16_bf16_f32_x9",
        "dot_tf32_tf32_f32",
        "dot_tf32_tf32_f32_x3",
        "dot_f32_f32_f32",
        "dot_f64_f64_f64",
    ]
)
"""A DotAlgorithm or its name in lower case."""
