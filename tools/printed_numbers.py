"""Compare outputs of programs, whose floating-point numbers may differ by rounding errors.

XLA compiles for the vector unit of the machine's CPU. Its width (SSE, AVX2, AVX-512, Neon)
determines the order of the terms of a sum, whether a product and a sum are fused, and the
approximation of a function. So the last digits of a result depend on the CPU. `same_output`
compares such numbers as numbers, and everything else, including integers, as text. The tools that
write outputs to documents and notebooks leave an equal output unchanged, and the tests of outputs
accept it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

TOLERANCE: Final = Decimal(4) / 2**24
"""The relative difference of equal numbers: 2 to 4 units in the last place of an f32."""

_NUMBER: Final = re.compile(
    # Not part of a name (%add.1), of a version (1.2.0) or of a number with a unit (1.5ms).
    r"(?<![\w.])([-+]?(?:(?:\d+\.\d*|\d+(?=e))(?:e[-+]?\d{1,4})?|nan|inf)j?)(?!\w|\.\w)"
)
"""A floating-point number as Python, NumPy, MLIR and HLO text print it. Integers do not match."""


def same_output(old: str, new: str) -> bool:
    """Return whether two texts are equal except for rounding errors of floating-point numbers.

    If a number is printed with more digits than in the other text, the spaces and line breaks next
    to numbers may differ, because NumPy and tables align their columns.

    Example:
        >>> same_output("[0.4082483 0.       ] 3", "[0.40824828 0.        ] 3")
        True
        >>> same_output("[0.4082483 0.       ] 3", "[0.4082483 0.       ] 4")
        False
    """
    if old == new:
        return True
    # Text and numbers alternate.
    olds, news = _NUMBER.split(old), _NUMBER.split(new)
    if len(olds) != len(news) or not all(map(same_number, olds[1::2], news[1::2])):
        return False
    texts = olds[::2], news[::2]
    if [*map(len, olds[1::2])] != [*map(len, news[1::2])]:
        texts = _without_alignment(texts[0]), _without_alignment(texts[1])
    return texts[0] == texts[1]


def _without_alignment(texts: list[str]) -> list[str]:
    """Remove the whitespace next to the numbers between these texts."""
    first, *others = texts
    *inner, last = others
    return [first.rstrip(), *(text.strip() for text in inner), last.lstrip()]


def same_number(old: str, new: str) -> bool:
    """Return whether two printed numbers are equal except for rounding errors.

    Their difference is at most `TOLERANCE`, or 1 in the last digit of a number that is printed with
    few digits, such as 0.125 as 0.12 or 0.13. The latter applies to numbers with at least two
    decimals whose last digit is at most a tenth of the number. Others, such as 1.5, are usually
    exact.
    """
    if old == new:
        return True
    a, b = Decimal(old.removesuffix("j")), Decimal(new.removesuffix("j"))
    if not (a.is_finite() and b.is_finite()) or a.is_signed() != b.is_signed():
        return False
    difference, largest = abs(a - b), max(abs(a), abs(b))
    if difference <= TOLERANCE * largest:
        return True
    last_digit = max(Decimal(1).scaleb(int(x.as_tuple().exponent)) for x in (a, b))
    return (
        2 <= _decimals(old) == _decimals(new)
        and difference <= last_digit
        and 10 * last_digit <= largest
    )


def _decimals(number: str) -> int:
    """Return how many digits a printed number has after the point."""
    return len(re.sub(r"e.*|j", "", number).partition(".")[2])
