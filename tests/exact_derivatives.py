"""Derivatives of special functions at points that f32 and f64 represent, by mpmath.

`python tests/exact_derivatives.py` writes exact_derivatives.json. It needs
mpmath (1.4.1 was used), which the tests do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_suffix(".json")


def rounded(*values: float) -> list[float]:
    """Return the numbers of f32 nearest to `values`."""
    return [float(np.float32(value)) for value in values]


POSITIVE = rounded(
    *(0, 1.2e-38, 1e-30, 1e-20, 1e-10, 1e-5, 0.0078125, 0.125, 0.25, 0.5, 0.75, 0.9375),
    *(0.9990234375, 1, 1.0009765625, 1.25, 1.5, 1.75, 2, 2.125, 2.5, 3, 4, 5, 7.875, 8, 8.25, 10),
    *(16.5, 20, 30, 39.5, 40, 50, 80, 88, 100, 1000.5, 1e5, 1e10, 1e20, 1e30, np.inf),
)
LINE = [*POSITIVE, *[-x for x in POSITIVE]]
"""0, -0, numbers from 1e-38 to 1e30 of both signs, and the infinities."""

_UNIT = [x for x in LINE if abs(x) < 1] + [
    sign * (1 - 2.0**-k) for k in (6, 12, 18, 23) for sign in (1, -1)
]
_EXPONENTS = rounded(1.0009765625, 1.5, 2, 3, 4, 5, 10, 20, 33.5)
_BASES = rounded(1e-10, 1e-3, 0.25, 0.5, 1, 1.5, 2, 5, 9.5, 33, 1e3, 1e5)
_SHAPES = rounded(1e-10, 0.125, 0.5, 1, 2.5, 7.875, 8, 30, 200, 1e4)
_TIMES = rounded(
    *(0, 1e-30, 1e-3, 0.25, 1, 2, 8.5, 29, 88, 210, 9900, 1e4, 10100, 1e8, np.inf),
)
_SIDES = rounded(0.125, 0.5, 1, 1.5, 2, 7, 8, 20, 300, 1e4)
_PORTIONS = rounded(0, 1e-30, 1e-10, 1e-3, 0.125, 0.5, 0.75, 0.875, 0.9990234375, 1)

POINTS: dict[str, list[tuple[float, ...]]] = {
    "lgamma": [(x,) for x in LINE],
    "digamma": [(x,) for x in LINE],
    "polygamma": list(product(rounded(1, 2, 5), LINE)),
    "erf_inv": [(x,) for x in _UNIT],
    "bessel_i0e": [(x,) for x in LINE],
    "bessel_i1e": [(x,) for x in LINE],
    "zeta": [*product(_EXPONENTS, _BASES), *product([2.0, 3.0, 4.0], [-0.5, -3.25, -20.5])],
    "igamma": list(product(_SHAPES, _TIMES)),
    "igamma_grad_a": list(product(_SHAPES, _TIMES)),
    "regularized_incomplete_beta": list(product(_SIDES, _SIDES, _PORTIONS)),
}
"""The points of each function."""


def _derivatives(mp: Any) -> dict[tuple[str, int], Callable[..., Any]]:
    """Return the derivatives by function and operand."""

    def polygamma(n: int, x: Any) -> Any:
        if mp.isinf(x):
            return mp.inf if x > 0 and n == 0 else mp.mpf(0) if x > 0 else mp.nan
        if x <= 0 and x == mp.floor(x):
            return mp.nan
        if x > 1e7:  # DLMF 5.15.8, 5.11.2
            if n == 0:
                return mp.log(x) - 1 / (2 * x) - 1 / (12 * x * x)
            terms = mp.factorial(n - 1) / x**n + mp.factorial(n) / (2 * x ** (n + 1))
            return (-1) ** (n + 1) * terms
        return mp.psi(n, x)

    def bessel(order: int, x: Any) -> Any:
        size = abs(x)
        if size == 0:
            return mp.mpf(order) / 2
        if mp.isinf(size):
            return mp.mpf(0)
        if size > 1e4:  # DLMF 10.40.1 of both terms
            mu = 4 * order * order
            first, term = mp.mpf(1), mp.mpf(1)
            slope = mp.mpf(-1) / 2
            for k in range(1, 6):
                term *= -(mu - (2 * k - 1) ** 2) / (k * 8 * size)
                first += term
                slope += term * (mp.mpf(-1) / 2 - k)
            value = slope / size / mp.sqrt(2 * mp.pi * size)
        else:
            other = mp.besseli(1, size) if order == 0 else mp.besseli(0, size)
            less = mp.besseli(order, size)
            value = mp.exp(-size) * (other - less - (less / size if order else 0))
        return value * (mp.sign(x) if order == 0 else 1)

    def hurwitz(x: Any, q: Any) -> Any:
        up = max(0, int(mp.ceil(-q)) + 1)
        with mp.workdps(300):  # mpmath's result is inaccurate if it is small
            return sum((q + k) ** -x for k in range(up)) + mp.zeta(x, q + up)

    def density(a: Any, x: Any) -> Any:
        if x == 0:
            return mp.inf if a < 1 else mp.mpf(a == 1)
        if mp.isinf(x):
            return mp.mpf(0)
        return mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))

    def igamma_a(a: Any, x: Any) -> Any:
        if x == 0 or mp.isinf(x) or x > 20 * a + 800:
            return mp.mpf(0)
        with mp.workdps(120):  # the upper function may be tiny
            return mp.diff(lambda s: mp.gammainc(s, 0, x, regularized=True), a)

    def igamma_grad_a_x(a: Any, x: Any) -> Any:
        if x == 0:
            return -mp.inf if a <= 1 else mp.mpf(0)
        if mp.isinf(x):
            return mp.mpf(0)
        return density(a, x) * (mp.log(x) - mp.psi(0, a))

    def beta(a: Any, b: Any, x: Any) -> Any:
        if x in (0, 1):
            exponent, other = (a, b) if x == 0 else (b, a)
            return mp.inf if exponent < 1 else other * (exponent == 1)
        gammas = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
        return mp.exp((a - 1) * mp.log(x) + (b - 1) * mp.log(1 - x) + gammas)

    return {
        ("lgamma", 0): lambda x: polygamma(0, x),
        ("digamma", 0): lambda x: polygamma(1, x),
        ("polygamma", 1): lambda n, x: polygamma(int(n) + 1, x),
        ("erf_inv", 0): lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x) ** 2),
        ("bessel_i0e", 0): lambda x: bessel(0, x),
        ("bessel_i1e", 0): lambda x: bessel(1, x),
        ("zeta", 0): lambda x, q: mp.diff(lambda s: hurwitz(s, q), x) if q > 0 else mp.nan,
        ("zeta", 1): lambda x, q: -x * hurwitz(x + 1, q),
        ("igamma", 0): igamma_a,
        ("igamma", 1): density,
        ("igamma_grad_a", 1): igamma_grad_a_x,
        ("regularized_incomplete_beta", 2): beta,
    }


def values_of(function: str, operand: int) -> Any:
    """Return the derivatives of a function by an operand at its points; None if there are none."""
    texts = json.loads(FILE.read_text(encoding="utf-8")).get(f"{function} {operand}")
    return None if texts is None else np.array([float(text) for text in texts])


def main() -> None:
    """Write the file."""
    import mpmath as mp  # of this program only

    mp.mp.dps = 60

    def value(function: Callable[..., Any], point: Sequence[float]) -> str:
        return repr(float(function(*map(mp.mpf, point))))

    found = {
        f"{name} {operand}": [value(function, point) for point in POINTS[name]]
        for (name, operand), function in _derivatives(mp.mp).items()
    }
    FILE.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
