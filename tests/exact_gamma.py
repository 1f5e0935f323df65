"""The incomplete gamma functions, for parameters from 32 on, and log(gamma) in decimal arithmetic.

Up to 1e8 the lower one is the series DLMF 8.7.1. For larger ones both are the first two terms of
DLMF 8.12, without a series in eta: the terms that are left out are below 1e-16 for a from 1e17 on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
BERNOULLI = [(1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510)]


def erfc(z: Decimal) -> Decimal:
    """Return the complementary error function (DLMF 7.6.1 and 7.9.1)."""
    if z < 0:
        return 2 - erfc(-z)
    if z < 3:
        term = total = z
        k = 0
        while abs(term) > Decimal("1e-58"):
            k += 1
            term = -term * z * z / k
            total += term / (2 * k + 1)
        return 1 - 2 * total / PI.sqrt()
    fraction = z
    for k in range(600, 0, -1):
        fraction = z + Decimal(k) / 2 / fraction
    return (-z * z).exp() / fraction / PI.sqrt()


def log_gamma(x: Decimal) -> Decimal:
    """Return the logarithm of gamma(x), for x from 32 on (DLMF 5.11.1)."""
    total = (x - Decimal("0.5")) * x.ln() - x + (2 * PI).ln() / 2
    for k, (n, d) in enumerate(BERNOULLI, 1):
        total += Decimal(n) / d / (2 * k * (2 * k - 1)) / x ** (2 * k - 1)
    return total


def log_gamma_values(numbers: Sequence[float]) -> list[float]:
    """Return the logarithms of gamma, rounded, of positive numbers (DLMF 5.5.1)."""
    with localcontext(prec=60):
        exact = [Decimal(number) for number in numbers]
        factors = [math.prod(x + k for k in range(32)) for x in exact]
        return [float(log_gamma(x + 32) - f.ln()) for x, f in zip(exact, factors, strict=True)]


def incomplete_gamma(a: Decimal, x: Decimal) -> tuple[Decimal, Decimal]:
    """Return P(a, x) and Q(a, x)."""
    if a < Decimal("1e8"):
        term = total = 1 / a
        k = 0
        while term > total * Decimal("1e-55"):
            k += 1
            term = term * x / (a + k)
            total += term
        lower = total * (a * x.ln() - x - log_gamma(a)).exp()
        return lower, 1 - lower
    mu = (x - a) / a
    is_tiny = abs(mu) < Decimal("1e-18")
    half_square = mu**2 / 2 - mu**3 / 3 if is_tiny else mu - (1 + mu).ln()
    eta = (2 * half_square).sqrt().copy_sign(mu)
    coefficient = Decimal(-1) / 3 + eta / 12 if is_tiny else 1 / mu - 1 / eta
    rest = (-a * half_square).exp() / (2 * PI * a).sqrt() * coefficient
    z = eta * (a / 2).sqrt()
    return erfc(-z) / 2 - rest, erfc(z) / 2 + rest


def gamma_values(a: float, x: float) -> tuple[float, float]:
    """Return P(a, x) and Q(a, x)."""
    with localcontext(prec=60):
        lower, upper = incomplete_gamma(Decimal(a), Decimal(x))
        return float(lower), float(upper)


def gamma_slopes(a: float, x: float) -> tuple[float, float]:
    """Return the derivatives of P(a, x) by a and by x, by central differences."""
    with localcontext(prec=60):
        exact_a, exact_x = Decimal(a), Decimal(x)
        step = exact_a.sqrt() * Decimal("1e-14")
        part, sign = (0, 1) if x < a else (1, -1)  # the smaller one has more digits

        def slope(function: Callable[[Decimal], tuple[Decimal, Decimal]]) -> float:
            return float(sign * (function(step)[part] - function(-step)[part]) / (2 * step))

        return (
            slope(lambda h: incomplete_gamma(exact_a + h, exact_x)),
            slope(lambda h: incomplete_gamma(exact_a, exact_x + h)),
        )
