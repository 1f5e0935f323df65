"""The accuracy of transcendental functions: ResultAccuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from builder.check import integer, refusal
from builder.errors import ShapeInferenceError, error_of

AccuracyMode = Literal["DEFAULT", "HIGHEST", "TOLERANCE"]
"""How the accuracy of a result is specified; see `ResultAccuracy`."""

_MODES: Final = get_args(AccuracyMode)
_WITHOUT_TOLERANCES: Final = ("DEFAULT", "HIGHEST")


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
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

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0
    mode: AccuracyMode = "TOLERANCE"

    def __post_init__(self) -> None:
        name = "ResultAccuracy"
        if not isinstance(self.mode, str) or self.mode not in _MODES:
            raise refusal(name, f"mode must be one of {', '.join(_MODES)}", self.mode)
        for field in ("atol", "rtol"):
            object.__setattr__(self, field, _tolerance(name, field, getattr(self, field)))
        object.__setattr__(self, "ulps", integer(name, "ulps", self.ulps))
        if self.ulps < 0:
            raise refusal(name, "ulps must not be negative", self.ulps)
        # StableHLO's verifier of result_accuracy
        if self.mode != "TOLERANCE" and (self.atol or self.rtol or self.ulps):
            rule = (
                f"only the mode TOLERANCE allows errors, got mode {self.mode} with "
                f"atol {self.atol:g}, rtol {self.rtol:g}, ulps {self.ulps}"
            )
            raise error_of(ShapeInferenceError, name, rule, "omit the mode, or the tolerances")

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
