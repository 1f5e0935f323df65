"""Algorithms and precision: Transpose, FftType, RandomAlgorithm, Precision, ResultAccuracy, ..."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import numpy as np

from builder.attributes.fields import NamedEnum
from builder.checking import integer, refusal
from builder.errors import ShapeInferenceError, error_of
from builder.support.bundles import Bundle, bundle, set_fields


class Transpose(NamedEnum, op="triangular_solve", argument="transpose_a"):
    """How `triangular_solve` uses its matrix: XLA's TriangularSolveOptions.

    NO_TRANSPOSE uses the matrix unchanged, TRANSPOSE its transpose, ADJOINT its conjugate
    transpose. For real numbers ADJOINT is the same as TRANSPOSE.
    """

    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


TransposeLike = Transpose | Literal["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]
"""A Transpose or its name."""


class FftType(NamedEnum, op="fft", argument="fft_type"):
    """The Fourier transform that `fft` computes.

    FFT transforms complex to complex numbers; IFFT is its inverse. RFFT transforms real to complex
    numbers and returns the first half of the result, because the other half is its conjugate; IRFFT
    is the inverse of RFFT.
    """

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


FftTypeLike = FftType | Literal["FFT", "IFFT", "RFFT", "IRFFT"]
"""An FftType or its name."""


class RandomAlgorithm(NamedEnum, op="rng_bit_generator", argument="algorithm"):
    """The algorithm by which `rng_bit_generator` computes bits from its state.

    RNG_PHILOX is Philox 4x32-10 and RNG_THREE_FRY is Threefry 2x32-20, both of Salmon et al.,
    "Parallel random numbers: as easy as 1, 2, 3" (2011). RNG_DEFAULT is the algorithm that the
    device prefers; on a CPU it is RNG_PHILOX.
    """

    RNG_DEFAULT = "RNG_DEFAULT"
    RNG_THREE_FRY = "RNG_THREE_FRY"
    RNG_PHILOX = "RNG_PHILOX"


RandomAlgorithmLike = RandomAlgorithm | Literal["RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX"]
"""A RandomAlgorithm or its name."""


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


AccuracyMode = Literal["DEFAULT", "HIGHEST", "TOLERANCE"]
"""How the accuracy of a result is specified; see `ResultAccuracy`."""

_MODES: Final = get_args(AccuracyMode)
_WITHOUT_TOLERANCES: Final = ("DEFAULT", "HIGHEST")


@bundle
class ResultAccuracy(Bundle):
    """The accuracy that a transcendental function must have: XLA's ResultAccuracy.

    A compiler that has several implementations of a function chooses one by the accuracy. The
    compiler for CPUs has one implementation, and ignores the accuracy.

    Attributes:
        atol: the absolute error that is allowed; not negative.
        rtol: the error that is allowed relative to the result; not negative.
        ulps: the error that is allowed in units in the last place; not negative.
        mode: "TOLERANCE" for the errors above, "HIGHEST" for the most accurate implementation,
            "DEFAULT" for the compiler's choice. Only "TOLERANCE" allows errors.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3])
        >>> xb.exp(x, xb.ResultAccuracy(ulps=2)).attributes["result_accuracy"].ulps
        2
    """

    atol: float
    rtol: float
    ulps: int
    mode: AccuracyMode

    def __init__(
        self,
        atol: float = 0.0,
        rtol: float = 0.0,
        ulps: int = 0,
        mode: AccuracyMode = "TOLERANCE",
    ) -> None:
        name = "ResultAccuracy"
        if not isinstance(mode, str) or mode not in _MODES:
            raise refusal(name, f"mode must be one of {', '.join(_MODES)}", mode)
        atol, rtol = _tolerance(name, "atol", atol), _tolerance(name, "rtol", rtol)
        ulps = integer(name, "ulps", ulps)
        if ulps < 0:
            raise refusal(name, "ulps must not be negative", ulps)
        # StableHLO's verifier of result_accuracy
        if mode != "TOLERANCE" and (atol or rtol or ulps):
            rule = "only the mode TOLERANCE allows errors"
            raise error_of(
                ShapeInferenceError,
                name,
                rule,
                "omit the mode, or the tolerances",
                got=f"mode {mode} with atol {atol:g}, rtol {rtol:g}, ulps {ulps}",
            )
        set_fields(self, atol, rtol, ulps, mode)

    @classmethod
    def of(cls, value: ResultAccuracyLike, op: str = "exp") -> ResultAccuracy | None:
        """Return `value` as a ResultAccuracy; None for the default accuracy.

        Raises:
            ShapeInferenceError: `value` is not a ResultAccuracy, "HIGHEST", "DEFAULT" or None.
        """
        if value is None:
            return None
        if isinstance(value, str) and value in _WITHOUT_TOLERANCES:
            value = cls(mode=value)
        if not isinstance(value, cls):
            rule = "result_accuracy must be 'HIGHEST', 'DEFAULT' or a ResultAccuracy"
            mode = value.upper() if isinstance(value, str) else ""
            fix = (
                f"{mode!r}"
                if mode in _WITHOUT_TOLERANCES
                else "for instance xb.ResultAccuracy(ulps=2)"
            )
            raise refusal(op, rule, value, f"write {fix}")
        return None if value.mode == "DEFAULT" else value

    def __str__(self) -> str:
        if self.mode != "TOLERANCE":
            return f"{{mode={self.mode.lower()}}}"
        # All digits of the doubles, which XLA's parser reads.
        return f"{{tolerance={{atol={self.atol!r},rtol={self.rtol!r},ulps={self.ulps}}}}}"


ResultAccuracyLike = ResultAccuracy | Literal["DEFAULT", "HIGHEST"] | None
"""A ResultAccuracy, or the name of a mode without tolerances; None for DEFAULT."""


def _tolerance(name: str, field: str, value: Any) -> float:
    """Return a tolerance as a float."""
    if isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # an int larger than every float
            number = -1.0
        if number >= 0:
            return abs(number)  # StableHLO's verifier refuses -0
    raise refusal(name, f"{field} must be a number that is not negative", value)
