"""The tolerance of an op: how far the results of two implementations may differ."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

UNKNOWN_COUNT: Final = 64
"""The assumed number of iterations of a loop, which is unknown before it runs."""


class LargestTerm(enum.Enum):
    """An upper bound of the terms that are added up for an element of a result."""

    OPERANDS = "the largest element of the operands and the result"
    PRODUCT = "the product of the largest elements of the first two operands"
    RESULT = "the largest element of the result"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far floating-point results of two implementations may differ.

    Tolerances are in units in the last place (ulps); 0 for results that are exact. The results of
    ops with `terms` or `applications` add up terms. Their errors are in ulps of the largest term:
    where terms cancel, the error of the remainder has that magnitude.

    Attributes:
        ulps: the tolerance of an element; with `terms`, for each term.
        complex_ulps: replaces `ulps` if an operand or the result is complex; by default `ulps`. It
            is for the complete complex number, in ulps of its larger part.
        flushes: whether devices may flush subnormal operands to zero. Elementwise arithmetic and
            comparisons may; ops that move elements preserve them.
        terms: a function of the op that returns the number of terms of an element.
        applications: a function of the op that returns how often an element of the result passes
            through the op's computations. Their tolerance is multiplied by this number.
        largest_term: see `LargestTerm`.
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
"""For ops that apply a computation once for each element."""

APPLIED_REPEATEDLY: Final = Tolerance(applications=_unknown)
"""For ops that apply a computation an unknown number of times."""
