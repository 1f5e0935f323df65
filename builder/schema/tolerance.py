"""The tolerance of an op: how far the results of two implementations may differ."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

UNKNOWN_COUNT: Final = 64
"""The assumed number of iterations of a loop whose actual number is unknown until it runs."""


class LargestTerm(enum.Enum):
    """An upper bound of the magnitude of the terms whose sum is an element of the result."""

    OPERANDS = "the largest element of the operands and the result"
    PRODUCT = "the product of the largest elements of the first two operands"
    RESULT = "the largest element of the result"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far floating-point results of two implementations may differ.

    Tolerances are in units in the last place (ulps); 0 for results that are exact. For an op with
    `terms` or `applications`, each element of the result is a sum of terms, and its tolerance is in
    ulps of the largest term, because the error of a sum does not shrink when its terms cancel.

    Attributes:
        ulps: the tolerance of an element; with `terms`, for each term.
        complex_ulps: replaces `ulps` if an operand or the result is complex; None for `ulps`. The
            unit is one ulp of the larger of the real and the imaginary part.
        flushes: whether devices may flush subnormal operands to zero: true for elementwise
            arithmetic and comparisons, false for ops that only move elements.
        terms: a function of the op that returns how many terms are added up for each element.
        applications: a function of the op that returns how often the op's computations are applied
            for an element of the result. The tolerance of the computations is multiplied by this
            number.
        largest_term: the upper bound of the largest term; see `LargestTerm`.
    """

    ulps: float = 0
    complex_ulps: float | None = None
    flushes: bool = False
    terms: Callable[[Any], int] | None = None
    applications: Callable[[Any], int] | None = None
    largest_term: LargestTerm = LargestTerm.OPERANDS


EXACT: Final = Tolerance()


def _once(_: Any) -> int:
    return 1


def _unknown(_: Any) -> int:
    return UNKNOWN_COUNT


APPLIED_ONCE: Final = Tolerance(applications=_once)
"""The tolerance of ops that apply a computation once for each element of the result."""

APPLIED_REPEATEDLY: Final = Tolerance(applications=_unknown)
"""The tolerance of ops that apply a computation an unknown number of times."""
