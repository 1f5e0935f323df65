"""Temme's uniform expansion of the incomplete gamma functions, for f32 and f64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Final

from builder.graph.xla_op import XlaOp
from builder.lib.special.error_functions import wide_erfc
from builder.lib.special.gamma_functions import stirling_tail
from builder.lib.special.shared import is_double, log1p_less, polynomial
from builder.ops.elementwise import abs, and_, exp, ge, lt, sign, sqrt

# Temme's expansion is used from this parameter on, for x with |x / a - 1| below the second number,
# where |eta| is below the third.
_UNIFORM_FROM: Final = 32.0
_UNIFORM_RATIO: Final = 0.3
_UNIFORM_ETA: Final = 0.34


def is_uniform(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return where the expansion is used: for large a and x near a."""
    return and_(ge(a, _UNIFORM_FROM), lt(abs((x - a) / a), _UNIFORM_RATIO))


def uniform_tails(a: XlaOp, x: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return P(a, x) for x up to a, and Q(a, x) for larger ones."""
    ratio, eta = _eta(a, x)
    exponent = a * log1p_less(ratio)
    rest = _uniform_sum(a, eta, _uniform_coefficients(is_double(a)))
    rest = rest * exp(exponent) / sqrt(a * (2.0 * math.pi))
    normal = 0.5 * wide_erfc(abs(eta) * sqrt(a * 0.5))
    return normal - rest, normal + rest


def uniform_gradient(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return the derivative of P(a, x) by a, over the density: that of the expansion."""
    ratio, eta = _eta(a, x)
    is_f64 = is_double(a)
    rows = _uniform_coefficients(is_f64)
    slopes = [
        [n * c for n, c in enumerate(row)][1:] + ([0.0] if len(row) < 3 else []) for row in rows
    ]
    orders = [[k * c for c in row] for k, row in enumerate(rows)]
    alpha = [float(c) for c in _mu_coefficients(18 if is_f64 else 10)]
    inverse = 1.0 / a
    per_eta = polynomial(eta, alpha[::-1])  # ratio / eta
    value = eta * 0.5 - per_eta
    exponent = ratio - eta * eta * 0.5 - inverse * 0.5
    value = value - exponent * _uniform_sum(a, eta, rows)
    change = per_eta * _uniform_sum(a, eta, slopes) + _uniform_sum(a, eta, orders)
    return (value + inverse * change) * inverse * exp(stirling_tail(a))


def _eta(a: XlaOp, x: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return r = x / a - 1 and eta, which has its sign: half of its square is r - log(1 + r)."""
    ratio = (x - a) / a
    return ratio, sign(ratio) * sqrt(log1p_less(ratio) * -2.0)


def _uniform_sum(a: XlaOp, eta: XlaOp, rows: Sequence[Sequence[float]]) -> XlaOp:
    """Return the sum of the series in eta of `rows`, over a^0, a^1, ..."""
    inverse = 1.0 / a
    terms = [polynomial(eta, row[::-1]) for row in rows]
    total = terms[-1]
    for term in terms[-2::-1]:
        total = total * inverse + term
    return total


@cache
def _uniform_coefficients(is_f64: bool) -> tuple[tuple[float, ...], ...]:
    """Return the coefficients of c(0), c(1), ... as series in eta (DLMF 8.12.9 to 8.12.12).

    Terms that are negligible for all arguments of the expansion are left out.
    """
    orders, powers = (12, 20) if is_f64 else (6, 10)
    alpha = (Fraction(0), *_mu_coefficients(powers + 2 * orders + 2))
    first = [(n + 2) * alpha[n + 2] for n in range(powers + 2 * orders)]
    first[0] = Fraction(-1, 3)
    series, factor = [first], 1
    for k in range(1, orders):
        factor *= 2 * k + 1
        stirling = (-1) ** k * factor * alpha[2 * k + 1]
        before = series[-1]
        kept = range(len(before) - 2)
        series.append([stirling * first[n] + (n + 2) * before[n + 2] for n in kept])
    smallest = 2.0**-57 if is_f64 else 2.0**-28
    rows: list[tuple[float, ...]] = []
    for k, numbers in enumerate(series):
        row = [float(number) for number in numbers]
        sizes = [math.fabs(c) * _UNIFORM_ETA**n / _UNIFORM_FROM**k for n, c in enumerate(row)]
        used = [n for n, size in enumerate(sizes) if size > smallest]
        if used:
            rows.append(tuple(row[: max(used[-1] + 1, 2)]))
    return tuple(rows)


@cache
def _mu_coefficients(count: int) -> tuple[Fraction, ...]:
    """Return those of eta, eta^2, ... in the series of x / a - 1 (DLMF 8.12.13)."""
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, count + 1):
        products = sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))
        alpha.append((alpha[n - 1] - products) / (n + 1))
    return tuple(alpha[1:])
