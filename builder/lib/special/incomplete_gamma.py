"""The incomplete gamma functions and their derivatives with respect to the parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Final

from builder.graph.xla_op import XlaOp
from builder.lib.math import refuse_unbounded
from builder.lib.registry import library_function
from builder.lib.special.error_functions import wide_erfc
from builder.lib.special.gamma_functions import (
    lgamma_series,
    stirling_tail,
    wide_digamma,
    wide_lgamma,
)
from builder.lib.special.shared import (
    any_of,
    eps_of,
    in_f32,
    is_double,
    kind_of,
    log1p_less,
    need_one_shape,
    polynomial,
)
from builder.ops.control_flow import while_
from builder.ops.elementwise import (
    abs,
    and_,
    clamp,
    eq,
    exp,
    expm1,
    ge,
    gt,
    le,
    log,
    log1p,
    lt,
    ne,
    neg,
    not_,
    or_,
    select,
    sign,
    sqrt,
)

# Temme's expansion is used from this parameter on, for x with |x / a - 1| below the second number,
# where |eta| is below the third.
_UNIFORM_FROM: Final = 32.0
_UNIFORM_RATIO: Final = 0.3
_UNIFORM_ETA: Final = 0.34


def is_uniform(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return whether the expansion is used: for large a and x near a."""
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
    """Return the derivative of P(a, x) by a, divided by the density, from the expansion."""
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
    """Return r = x / a - 1, and eta: of r's sign, with eta**2 / 2 = r - log(1 + r)."""
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
    """Return the coefficients of eta, eta^2, ... in the series of x / a - 1 (DLMF 8.12.13)."""
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, count + 1):
        products = sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))
        alpha.append((alpha[n - 1] - products) / (n + 1))
    return tuple(alpha[1:])


# The other expansions end much earlier, as they are not used for large a near x.
_MOST_TERMS: Final = 2000.0


@library_function("Igamma", has_derivative=True)
def igamma(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return the regularized lower incomplete gamma function P(a, x).

    The result is NaN where a is not positive or x is negative.

    Accuracy: 5 ulps, multiplied by -log(result) if the result is below 1 / e.

    Args:
        a: the parameters, a floating-point array.
        x: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.igamma(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: DLMF 8.12.3 and 8.12.4 (Temme's uniform expansion) for large a and x near a; otherwise
    8.7.1 (series) up to the larger of a and 1, and 8.9.2 (continued fraction) above. The upper
    function of small a and x is 8.7.3.
    """
    return _computed("igamma", partial(_incomplete_gamma, is_upper=False), a, x)


@library_function("Igammac", has_derivative=True)
def igammac(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    As in XLA, the result is 1 where a or x is not positive.

    Accuracy: see `igamma`.

    Args:
        a: the parameters, a floating-point array.
        x: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.igammac(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: see `igamma`.
    """
    return _computed("igammac", partial(_incomplete_gamma, is_upper=True), a, x)


@library_function("IgammaGradA", has_derivative=True)
def igamma_grad_a(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return the derivative of `igamma` with respect to a.

    The result is NaN where a is not positive or x is negative. It has no derivative with
    respect to a.

    Accuracy: 6 ulps, multiplied by -log(abs(result)) if abs(result) is below 1 / e.

    Args:
        a: the parameters, a floating-point array.
        x: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.igamma_grad_a(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: the derivatives of the expansions of `igamma`, term by term.
    """
    return _computed("igamma_grad_a", partial(_incomplete_gamma_gradient, is_sample=False), a, x)


@library_function("RandomGammaGrad", has_derivative=True)
def random_gamma_grad(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return the derivative of a sample x of the gamma distribution with respect to its shape a.

    It is the derivative dx / da at a constant value of `igamma` (a, x). The result is NaN where a
    is not positive or x is negative. It has no derivative.

    Accuracy: 40 ulps.

    Args:
        a: the parameters, a floating-point array.
        x: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.random_gamma_grad(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: see `igamma_grad_a`.
    """
    return _computed("random_gamma_grad", partial(_incomplete_gamma_gradient, is_sample=True), a, x)


def _computed(op: str, function: Callable[..., XlaOp], a: XlaOp, x: XlaOp) -> XlaOp:
    """Check the arguments of `op`, and compute its result by `function`."""
    need_one_shape(op, a=a, x=x)
    refuse_unbounded(op, a=a)
    return in_f32(function, a, x)


def _incomplete_gamma(a: XlaOp, x: XlaOp, *, is_upper: bool) -> XlaOp:
    # Results for such parameters depend on the sign of x - a only, and their inverses may be zero.
    is_huge = gt(a, 1e300 if is_double(a) else 1e30)
    a, x = (select(is_huge, operand * 2.0**-20, operand) for operand in (a, x))
    is_series = or_(le(x, 1.0), le(x, a))
    is_near = is_uniform(a, x)
    power, power_by_a = _powers(a, x)
    is_inside = and_(_is_inside(a, x, is_near), gt(power_by_a, 0.0))
    low, _ = _gamma_series(a, x, and_(is_inside, is_series), has_gradient=False)
    high, _ = _gamma_fraction(a, x, and_(is_inside, not_(is_series)), has_gradient=False)
    low, high = power_by_a * low, power * high
    low_tail, high_tail = uniform_tails(a, x)
    low, high = select(is_near, low_tail, low), select(is_near, high_tail, high)
    low, high = clamp(0.0, low, 1.0), clamp(0.0, high, 1.0)  # roundings may exceed them
    is_nan = or_(or_(ne(a, a), ne(x, x)), and_(eq(a, math.inf), eq(x, math.inf)))
    if is_upper:
        value = select(is_series, 1.0 - low, high)
        value = select(and_(le(a, 0.5), le(x, 1.0)), _upper_of_small(a, x), value)
        value = select(eq(x, math.inf), 0.0, value)
        value = select(or_(or_(le(a, 0.0), le(x, 0.0)), eq(a, math.inf)), 1.0, value)
        return select(is_nan, math.nan, value)
    value = select(is_series, low, 1.0 - high)
    value = select(or_(eq(x, 0.0), eq(a, math.inf)), 0.0, value)
    value = select(and_(eq(x, math.inf), lt(a, math.inf)), 1.0, value)
    return select(or_(is_nan, or_(le(a, 0.0), lt(x, 0.0))), math.nan, value)


def _upper_of_small(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return Q(a, x) for a up to 0.5 and x up to 1, where 1 - P(a, x) cancels (DLMF 8.7.3)."""
    total: XlaOp | float = 0.0
    for n in range(20 if is_double(x) else 12, 0, -1):
        total = (1.0 / (a + float(n)) + total) * (x * (-1.0 / n))
    # Everything is divided by a, because the products of a small a are below the normal range.
    slope = log(x) - (polynomial(a, lgamma_series(is_double(a))) - log1p(a) / a)
    exponent = a * slope
    ratio = select(eq(exponent, 0.0), 1.0, expm1(exponent) / exponent)
    return neg(a * (slope * ratio + exp(exponent) * total))


def _lgamma_of_next(x: XlaOp) -> XlaOp:
    """Return log(gamma(1 + x)) for x from 0 to 0.5."""
    return x * polynomial(x, lgamma_series(is_double(x))) - log1p(x)


def _incomplete_gamma_gradient(a: XlaOp, x: XlaOp, *, is_sample: bool) -> XlaOp:
    is_series = or_(le(x, 1.0), le(x, a))
    is_near = is_uniform(a, x)
    is_inside = _is_inside(a, x, is_near)
    low, low_gradient = _gamma_series(a, x, and_(is_inside, is_series), has_gradient=True)
    high, high_gradient = _gamma_fraction(a, x, and_(is_inside, not_(is_series)), has_gradient=True)
    # The derivatives of the logarithms of x^a exp(-x) / gamma(a + 1), and of the same / gamma(a).
    low_slope = log(x) - wide_digamma(a + 1.0)
    slope = low_slope + 1.0 / a
    low = low * low_slope + low_gradient
    high = neg(high * slope + high_gradient)
    near = uniform_gradient(a, x)
    if is_sample:
        value = neg(select(is_near, near, select(is_series, low / a, high)) * x)
    else:
        power, power_by_a = _powers(a, x)
        value = select(is_series, low * power_by_a, high * power)
        value = select(is_near, near * power, value)
    value = select(or_(eq(x, 0.0), or_(eq(x, math.inf), eq(a, math.inf))), 0.0, value)
    is_undefined = or_(or_(ne(a, a), ne(x, x)), or_(le(a, 0.0), lt(x, 0.0)))
    is_undefined = or_(is_undefined, and_(eq(a, math.inf), eq(x, math.inf)))
    return select(is_undefined, math.nan, value)


def _is_inside(a: XlaOp, x: XlaOp, is_near: XlaOp) -> XlaOp:
    """Return whether a series or a continued fraction determines the result."""
    is_finite = and_(lt(a, math.inf), lt(x, math.inf))
    return and_(and_(is_finite, not_(is_near)), and_(gt(a, 0.0), gt(x, 0.0)))


def gamma_density(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return x^a exp(-x) / gamma(a)."""
    return _powers(a, x)[0]


def _powers(a: XlaOp, x: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return x^a exp(-x) / gamma(a), and the same divided by a.

    For small a, the first may be below the normal range, and the second is near 1.
    """
    # For large a, the terms of the logarithm cancel, unless they are combined.
    ratio = (x - a) / a
    logarithm = select(lt(abs(ratio), 0.5), log1p_less(ratio), log(x / a) - ratio)
    large = exp(a * logarithm - stirling_tail(a)) * sqrt(a * (0.5 / math.pi))
    # The logarithm of gamma(a) is large for small a.
    is_small = le(a, 0.5)
    gamma = select(is_small, _lgamma_of_next(a), wide_lgamma(a))
    small = exp(a * log(x) - x - gamma)
    power = select(ge(a, 8.0), large, select(is_small, a, 1.0) * small)
    return power, select(is_small, small, power / a)


def _gamma_series(a: XlaOp, x: XlaOp, is_used: XlaOp, *, has_gradient: bool) -> tuple[XlaOp, XlaOp]:
    """Return the sum of x^k / ((a + 1) ... (a + k)) over k, and its derivative by a."""
    a, x = select(is_used, a, 1.0), select(is_used, x, 0.0)
    eps = eps_of(x)
    zero = a * 0.0

    def condition(state: XlaOp) -> XlaOp:
        _, _, term, total, slope, gradient, _ = state
        is_left = gt(term, total * eps)
        if has_gradient:
            is_left = or_(is_left, gt(abs(slope), abs(gradient) * eps))
        return and_(lt(state[6], _MOST_TERMS), any_of(is_left))

    def body(state: XlaOp) -> tuple[XlaOp, ...]:
        base, x, term, total, slope, gradient, k = state
        base = base + 1.0
        ratio = x / base
        if has_gradient:
            slope = (slope - term / base) * ratio
            gradient = gradient + slope
        term = term * ratio
        return base, x, term, total + term, slope, gradient, k + 1.0

    counter = a.builder.constant(0.0, kind_of(a))
    state = while_(condition, body, (a, x, zero + 1.0, zero + 1.0, zero, zero, counter))
    return state[3], state[5]


def _gamma_fraction(
    a: XlaOp, x: XlaOp, is_used: XlaOp, *, has_gradient: bool
) -> tuple[XlaOp, XlaOp]:
    """Return the continued fraction of gamma(a, x) exp(x) / x^a, and its derivative by a.

    Steed's method adds the differences of successive convergents. The rounding errors decrease with
    the differences.
    """
    a, x = select(is_used, a, 1.0), select(is_used, x, 2.0)
    eps = eps_of(x)
    first = 1.0 / (x + 1.0 - a)
    square = first * first

    def condition(state: XlaOp) -> XlaOp:
        return and_(lt(state[0], _MOST_TERMS), any_of(state[1]))

    def body(state: XlaOp) -> tuple[XlaOp, ...]:
        k, _, a, x, inverse, term, total, inverse_slope, term_slope, slope = state
        k = k + 1.0
        numerator, denominator = (a - k) * k, x + (k * 2.0 + 1.0) - a
        new = 1.0 / (denominator + numerator * inverse)
        factor = neg(numerator * inverse * new)
        if has_gradient:
            new_slope = (1.0 - k * inverse - numerator * inverse_slope) * new * new
            factor_slope = k * inverse * new
            factor_slope = factor_slope + numerator * (inverse_slope * new + inverse * new_slope)
            term_slope = factor * term_slope - factor_slope * term
            inverse_slope = new_slope
            slope = slope + term_slope
        term = factor * term
        total = total + term
        is_left = gt(abs(term), abs(total) * eps)
        if has_gradient:
            is_left = or_(is_left, gt(abs(term_slope), abs(slope) * eps))
        return k, is_left, a, x, new, term, total, inverse_slope, term_slope, slope

    counter = a.builder.constant(0.0, kind_of(a))
    start = (counter, is_used, a, x, first, first, first, square, square, square)
    state = while_(condition, body, start)
    return state[6], state[9]
