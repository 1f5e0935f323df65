"""The logarithm of the gamma function, and its derivative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Final

from builder.graph.xla_op import XlaOp
from builder.lib.math import floating_type, refuse_unbounded
from builder.lib.registry import library_function
from builder.lib.special.shared import in_f32, is_double, polynomial
from builder.ops.elementwise import (
    abs,
    and_,
    eq,
    floor,
    gt,
    le,
    log,
    lt,
    neg,
    or_,
    round_nearest_even,
    select,
)

_EULER: Final = 0.57721566490153286061
# The Bernoulli numbers B(2), B(4), ...
BERNOULLI: Final = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138,
)  # fmt: skip


@library_function("Lgamma", has_derivative=True)
def lgamma(x: XlaOp) -> XlaOp:
    """Return log(|gamma(x)|); +infinity at 0, the negative integers and the infinities.

    Accuracy: 3 ulps from -0.5 on, and 4 ulps on devices without a fused multiply-add; below -0.5, 4
        ulps of the largest of these: the result, lgamma(-x), and 1.

    Args:
        x: a floating-point array.

    Raises:
        OperandError: `x` is not a floating-point array.
        ShapeInferenceError: a size is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.lgamma(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Source: DLMF 5.7.3 near 1 and 2, 5.11.1 (Stirling) from 8, 5.5.1 between, 5.5.3 below -0.5.
    """
    floating_type("lgamma", x=x)
    refuse_unbounded("lgamma", x=x)
    return in_f32(wide_lgamma, x)


@library_function("Digamma", has_derivative=True)
def digamma(x: XlaOp) -> XlaOp:
    """Return the derivative of log(gamma(x)); -infinity at 0, NaN at the negative integers.

    Accuracy: 2 ulps of the larger of the result and 1; below -0.5, 8 ulps.

    Args:
        x: a floating-point array.

    Raises:
        OperandError: `x` is not a floating-point array.
        ShapeInferenceError: a size is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.digamma(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Source: DLMF 5.7.4 near 1 and 2, 5.11.2 from 8, 5.5.2 between, 5.5.4 below -0.5.
    """
    floating_type("digamma", x=x)
    refuse_unbounded("digamma", x=x)
    return in_f32(wide_digamma, x)


def wide_lgamma(x: XlaOp) -> XlaOp:
    """Return `lgamma` of x, in f32 or f64."""
    size = abs(x)
    z, product, _ = _moved_to_two(x)
    is_near = lt(size, 8.0)
    logarithm = log(select(is_near, product, size))
    near = z * polynomial(z, lgamma_series(is_double(x)))
    near = near + select(lt(size, 1.25), neg(logarithm), logarithm)
    far = (size - 0.5) * (logarithm - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5)
    far = far + stirling_tail(size)
    value = select(is_near, near, far)
    # The distance from the nearest integer is exact; it is 0 at the poles.
    sine = _sine_of_pi_times(abs(x - round_nearest_even(x)))
    mirrored = log(math.pi / (size * sine)) - value
    is_pole = or_(and_(lt(x, 0.0), eq(x, floor(x))), eq(size, math.inf))
    return select(is_pole, math.inf, select(lt(x, -0.5), mirrored, value))


def wide_digamma(x: XlaOp) -> XlaOp:
    """Return `digamma` of x, in f32 or f64."""
    size = abs(x)
    z, _, reciprocals = _moved_to_two(x)
    near = polynomial(z, _digamma_series(is_double(x)))
    near = near + select(lt(size, 1.25), neg(reciprocals), reciprocals)
    inverse = 1.0 / size
    powers = _stirling_coefficients(is_double(x))
    coefficients = [c * (2 * k + 1) for k, c in enumerate(powers)][::-1]
    far = log(size) - (inverse * inverse * polynomial(inverse * inverse, coefficients))
    far = far - 0.5 * inverse
    value = select(lt(size, 8.0), near, far)
    part = x - round_nearest_even(x)
    cotangent = _sine_of_pi_times(0.5 - abs(part)) / _sine_of_pi_times(part)
    mirrored = value + inverse - math.pi * cotangent
    value = select(lt(x, -0.5), mirrored, value)
    value = select(eq(x, 0.0), -math.inf, value)
    return select(and_(lt(x, 0.0), eq(x, floor(x))), math.nan, value)


def _moved_to_two(x: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Move numbers between -0.5 and 8 by an integer to the interval from 1.25 to 2.5.

    Numbers below -0.5 are replaced by their absolute values.

    Returns:
        The distance z of the moved number from 2; the quotient of gamma(2 + z) and gamma(x), or the
        inverse of this quotient if that is larger; and the sum of the inverses of its factors.
    """
    size = abs(x)
    number = size
    product: XlaOp | float = 1.0
    reciprocals: XlaOp | float = 0.0
    for _ in range(6):
        is_above = gt(number, 2.5)
        below = number - 1.0
        product = select(is_above, product * below, product)
        reciprocals = select(is_above, reciprocals + 1.0 / below, reciprocals)
        number = select(is_above, below, number)
    is_first, is_second = lt(size, 1.25), le(size, 0.5)
    z = select(is_second, x, select(is_first, size - 1.0, number - 2.0))
    factor = select(is_second, size * (1.0 + x), select(is_first, size, product))
    inverse = 1.0 / select(is_second, x, size)
    sum_below = select(is_second, inverse + 1.0 / (1.0 + x), inverse)
    return z, factor, select(is_first, sum_below, reciprocals)


def _sine_of_pi_times(x: XlaOp) -> XlaOp:
    """Return sin(pi x) for |x| up to 0.5, by Taylor's series.

    XLA reduces the argument of its sine by multiples of pi, which takes longer than the rest of
    `lgamma`.
    """
    count = 12 if is_double(x) else 7
    terms = [(-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(count)]
    return x * polynomial(x * x, terms[::-1])


def stirling_tail(x: XlaOp) -> XlaOp:
    """Return log(gamma(x)) less the first terms of Stirling's series, for x of at least 8."""
    inverse = 1.0 / x
    return inverse * polynomial(inverse * inverse, _stirling_coefficients(is_double(x))[::-1])


def _stirling_coefficients(is_f64: bool) -> Sequence[float]:
    numbers = BERNOULLI if is_f64 else BERNOULLI[:4]
    return [b / (2 * k * (2 * k - 1)) for k, b in enumerate(numbers, 1)]


@cache
def _zeta_less_one(k: int) -> float:
    """Return zeta(k) - 1 for an integer k from 2 (DLMF 25.2.9, with one correction term)."""
    last = 400
    rest = last ** (1.0 - k) * (1 / (k - 1) + 0.5 / last + k / 12 / last**2)
    correction = k * (k + 1) * (k + 2) / 720 * float(last) ** (-k - 3)
    return math.fsum([*(float(n) ** -k for n in range(2, last)), rest, -correction])


def lgamma_series(is_f64: bool) -> Sequence[float]:
    """Return the coefficients of log(gamma(2 + z)) / z."""
    count = 38 if is_f64 else 19
    terms = [(-1) ** k * _zeta_less_one(k) / k for k in range(2, count)]
    return [1 - _EULER, *terms][::-1]


def _digamma_series(is_f64: bool) -> Sequence[float]:
    """Return the coefficients of digamma(2 + z)."""
    return [k * c for k, c in enumerate(lgamma_series(is_f64)[::-1], 1)][::-1]
