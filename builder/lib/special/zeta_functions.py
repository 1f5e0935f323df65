"""The Hurwitz zeta function and the derivatives of digamma."""

from __future__ import annotations

import math
from collections.abc import Sequence

from builder.graph.xla_op import XlaOp
from builder.lib.math import refuse_unbounded
from builder.lib.registry import library_function
from builder.lib.special.gamma_functions import BERNOULLI, wide_digamma, wide_lgamma
from builder.lib.special.shared import in_f32, is_double, need_one_shape
from builder.ops.elementwise import (
    and_,
    ceil,
    eq,
    exp,
    floor,
    gt,
    le,
    log,
    lt,
    ne,
    neg,
    or_,
    pow,
    rem,
    select,
)


@library_function("Zeta", has_derivative=True)
def zeta(x: XlaOp, q: XlaOp) -> XlaOp:
    """Return the Hurwitz zeta function, the sum of (q + k)^(-x) over the integers k from 0.

    The result is infinite where x is 1, and NaN where x is below 1 or where q is negative and x is
    not an integer. Where q is 0 or a negative integer, the result is infinite if x is even or 1,
    and otherwise NaN. For negative q there is no derivative with respect to x: it is NaN.

    Accuracy: 4 + x / 4 ulps of the result; of the largest term for negative q and odd x, because
        terms cancel there. Terms below the normal range are lost.

    Args:
        x: the exponents, a floating-point array.
        q: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.zeta(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: F. Johansson, Rigorous high-precision computation of the Hurwitz zeta function
    (2015), formula 5 (Euler-Maclaurin).
    """
    need_one_shape("zeta", x=x, q=q)
    return in_f32(_zeta, x, q)


@library_function("Polygamma", has_derivative=True)
def polygamma(n: XlaOp, x: XlaOp) -> XlaOp:
    """Return the derivative of order n of `digamma`; NaN where n is not a natural number.

    It has no derivative with respect to n.

    Accuracy: 4 + log(n!) + (n + 1) |log(x)| ulps for positive x. For negative x, 8 + 2 n ulps of
    the result, or of n! times the largest term of `zeta` if n is even.

    Args:
        n: the orders, a floating-point array.
        x: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.polygamma(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: DLMF 25.11.12.
    """
    need_one_shape("polygamma", n=n, x=x)
    refuse_unbounded("polygamma", n=n)
    return in_f32(_polygamma, n, x)


def _zeta(x: XlaOp, q: XlaOp) -> XlaOp:
    is_negative = lt(q, 0.0)
    is_even = eq(rem(x, 2.0), 0.0)
    # The terms of negative bases are those of another zeta function, up to their sign.
    up = ceil(q) - q
    mirrored = positive_zeta(x, up) - positive_zeta(x, 1.0 - q)
    value = positive_zeta(x, select(is_negative, q - floor(q), q))
    value = select(is_negative, value + select(is_even, mirrored, neg(mirrored)), value)
    is_undefined = or_(lt(x, 1.0), and_(le(q, 0.0), ne(x, floor(x))))
    is_pole = and_(le(q, 0.0), eq(q, floor(q)))
    value = select(or_(is_undefined, is_pole), math.nan, value)
    return select(or_(eq(x, 1.0), and_(is_pole, is_even)), math.inf, value)


def positive_zeta(x: XlaOp, q: XlaOp) -> XlaOp:
    """Return the Hurwitz zeta function for x above 1 and q above 0."""
    powers = [pow(q + float(k), neg(x)) for k in range(10)]
    end = q + 10.0
    return _with_rest(powers, pow(end, neg(x)), pow(end, 1.0 - x), x, end)


def _scaled_zeta(x: XlaOp, q: XlaOp) -> XlaOp:
    """Return `positive_zeta` times q^x, which neither overflows nor underflows."""
    powers = [pow(q / (q + float(k)), x) for k in range(10)]
    end = q + 10.0
    last = pow(q / end, x)
    return _with_rest(powers, last, last * end, x, end)


def _with_rest(
    powers: Sequence[XlaOp], last: XlaOp, before_last: XlaOp, x: XlaOp, end: XlaOp
) -> XlaOp:
    """Add to the first terms the rest, from the term `last` on, by the Euler-Maclaurin formula.

    Args:
        powers: the first terms.
        last: end^(-x), with the same scale as the terms.
        before_last: end^(1 - x), with the same scale.
        x: the exponents.
        end: the base of the term `last`.
    """
    total = powers[0]
    for power in powers[1:]:
        total = total + power
    square = 1.0 / (end * end)
    rest: XlaOp | float = 0.0
    for k in range(len(BERNOULLI), 1, -1):
        coefficient = BERNOULLI[k - 1] / math.factorial(2 * k)
        factors = (x + float(2 * k - 3)) * (x + float(2 * k - 2))
        rest = factors * square * (rest + coefficient)
    correction = last * (x / end * (rest + BERNOULLI[0] / 2) + 0.5)
    integral = before_last / (x - 1.0)
    # The correction of a negligible last term may overflow.
    eps = 2.0**-53 if is_double(x) else 2.0**-24
    return select(lt(last + integral, total * eps), total, total + integral + correction)


def _polygamma(n: XlaOp, x: XlaOp) -> XlaOp:
    order = n + 1.0
    factorial = wide_lgamma(order)
    power = order * log(x)
    value = exp(factorial) * _zeta(order, x)
    # The factorial or the zeta function may be out of range although their product is not.
    limit = 600.0 if is_double(x) else 60.0
    is_extreme = and_(gt(x, 0.0), or_(gt(factorial, limit), gt(power, limit)))
    value = select(is_extreme, exp(factorial - power + log(_scaled_zeta(order, x))), value)
    value = select(eq(x, math.inf), 0.0, value)
    value = select(eq(rem(n, 2.0), 0.0), neg(value), value)
    value = select(eq(n, 0.0), wide_digamma(x), value)
    return select(or_(lt(n, 0.0), ne(n, floor(n))), math.nan, value)
