"""The incomplete beta function."""

from __future__ import annotations

import math

from builder.errors import OperandError, ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.math import array_shape, floating_type, refuse_unbounded
from builder.lib.registry import library_function
from builder.lib.special.gamma_functions import stirling_tail, wide_lgamma
from builder.lib.special.shared import (
    any_of,
    eps_of,
    in_f32,
    is_double,
    kind_of,
    log1p_less,
)
from builder.ops.control_flow import while_
from builder.ops.elementwise import (
    abs,
    and_,
    clamp,
    eq,
    exp,
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
    reduce_precision,
    select,
    sqrt,
)
from builder.types import primitive_type as pt


@library_function("RegularizedIncompleteBeta", has_derivative=True)
def regularized_incomplete_beta(a: XlaOp, b: XlaOp, x: XlaOp) -> XlaOp:
    """Return the regularized incomplete beta function I(a, b, x).

    The result is NaN where a or b is not positive, or x is outside [0, 1].
    It has no derivative with respect to a and b.

    Accuracy: for x below (a - 1/2) / (a + b), 32 ulps of the result, multiplied by -log(result) if
        the result is below 1 / e; for larger x, 32 ulps of 1.

    Args:
        a: the first parameters, an array of f16, bf16, f32 or f64.
        b: the second parameters, of the same shape, or a scalar.
        x: an array of the same shape, or a scalar.

    Raises:
        OperandError: an operand is of another type, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> a, b, x = (xb.XlaBuilder().parameter(xb.f32[3]),) * 3
        >>> lib.regularized_incomplete_beta(a, b, x).shape
        f32[3]

    Source: DLMF 8.17.22 (continued fraction) for small x, 8.17.4 otherwise.
    """
    name = "regularized_incomplete_beta"
    kind = floating_type(name, a=a, b=b, x=x)
    if kind not in (pt.f16, pt.bf16, pt.f32, pt.f64):
        rule = "a, b and x must be of f16, bf16, f32 or f64"
        raise error_of(
            OperandError, name, rule, "convert them with xb.convert_element_type", got=kind
        )
    refuse_unbounded(name, a=a, b=b, x=x)
    # Each becomes an array of the common shape.
    is_nan = or_(or_(ne(a, a), ne(b, b)), ne(x, x))
    if array_shape(name, "a", a).rank < array_shape(name, "x", is_nan).rank:
        rule = "a must have the sizes of the result"
        raise error_of(
            ShapeInferenceError,
            name,
            rule,
            "broadcast it with xb.broadcast",
            got=f"{a.shape}, {b.shape} and {x.shape}",
        )
    a, b, x = (select(is_nan, math.nan, operand) for operand in (a, b, x))
    return in_f32(_incomplete_beta, a, b, x)


def _incomplete_beta(a: XlaOp, b: XlaOp, x: XlaOp) -> XlaOp:
    is_undefined = or_(or_(le(a, 0.0), le(b, 0.0)), or_(lt(x, 0.0), gt(x, 1.0)))
    is_undefined = or_(is_undefined, or_(ne(x, x), and_(eq(a, math.inf), eq(b, math.inf))))
    difference = _difference(a, b, x)
    # The fraction converges fast below this x. It cancels if its difference is near -1.
    is_below = lt(x, (a + 1.0) / (a + b + 2.0))
    is_direct = or_(gt(difference, 0.5), and_(gt(difference, -0.5), is_below))
    one, other = select(is_direct, a, b), select(is_direct, b, a)
    is_used = and_(not_(is_undefined), and_(lt(a, math.inf), lt(b, math.inf)))
    fraction = _beta_fraction(
        one,
        other,
        select(is_direct, x, 1.0 - x),
        select(is_direct, difference, neg(difference)),
        is_used,
    )
    value = fraction * _beta_density(a, b, x, difference, one)
    value = select(is_direct, value, 1.0 - value)
    value = clamp(0.0, value, 1.0)  # roundings may exceed them
    value = select(or_(eq(x, 0.0), eq(a, math.inf)), 0.0, value)
    value = select(or_(eq(x, 1.0), and_(eq(b, math.inf), gt(x, 0.0))), 1.0, value)
    return select(is_undefined, math.nan, value)


def _difference(a: XlaOp, b: XlaOp, x: XlaOp) -> XlaOp:
    """Return a - (a + b) x, whose terms nearly cancel if x is near the mean."""
    total = a + b
    is_larger = gt(a, b)
    rounding = select(is_larger, b, a) - (total - select(is_larger, a, b))
    # The product of the upper halves is exact.
    total_high, x_high = _upper_half(total), _upper_half(x)
    rest = total_high * (x - x_high) + (total - total_high + rounding) * x
    return (a - total_high * x_high) - rest


def _upper_half(x: XlaOp) -> XlaOp:
    """Return the upper half of the significant bits of each number."""
    return reduce_precision(x, 11, 25) if is_double(x) else reduce_precision(x, 8, 11)


def slope_of_incomplete_beta(a: XlaOp, b: XlaOp, x: XlaOp) -> XlaOp:
    """Return the derivative of I(a, b, x) by x, for x between 0 and 1, in f32 or f64."""
    return _beta_density(a, b, x, _difference(a, b, x), None)


def _beta_density(a: XlaOp, b: XlaOp, x: XlaOp, difference: XlaOp, divisor: XlaOp | None) -> XlaOp:
    """Return x^a (1 - x)^b / B(a, b), where B is the beta function, divided by a or b.

    The logarithms of large gamma functions would cancel. So for numbers from 8 on they are computed
    by Stirling's series, and its leading terms are combined with the powers.

    Args:
        a, b, x: see `regularized_incomplete_beta`.
        difference: a - (a + b) x.
        divisor: a or b; None to divide by x and 1 - x instead. For small a and b the quotient is in
            the normal range even if the density is not.
    """
    is_slope = divisor is None
    rest, log_x = 1.0 - x, log(x)
    # Not log1p(-x): a converted computation calls jax's, which `legalize` does not rewrite.
    log_rest = select(lt(x, 0.5), log1p_less(neg(x)) - x, log(rest))

    def exp_of(exponent: XlaOp) -> XlaOp:
        return exp(exponent - (log_x + log_rest) if is_slope else exponent)

    total = a + b
    is_a_smaller = lt(a, b)
    small, large = select(is_a_smaller, a, b), select(is_a_smaller, b, a)
    tails = stirling_tail(total) - stirling_tail(large)

    exponent = a * _log_ratio_less(neg(difference) / a, x, total / a)
    exponent = exponent + b * _log_ratio_less(difference / b, rest, total / b)
    both_large = exp_of(exponent + (tails - stirling_tail(small)))
    both_large = both_large * sqrt(small * (large / total) * (0.5 / math.pi))
    factor = small
    if divisor is not None:
        both_large, factor = both_large / divisor, small / divisor

    power = small * log(select(is_a_smaller, x, rest) * total)
    power = power + large * select(is_a_smaller, log_rest, log_x)
    ratio = small / large
    growth = large * select(lt(ratio, 0.5), log1p_less(ratio), log(1.0 + ratio) - ratio)
    growth = growth - 0.5 * log1p(ratio) + tails
    one_large = factor * exp_of(power + (growth - wide_lgamma(small + 1.0)))

    gammas = wide_lgamma(total + 1.0) - wide_lgamma(a + 1.0) - wide_lgamma(b + 1.0)
    none_large = factor * exp_of(a * log_x + b * log_rest + gammas) * (large / total)
    return select(ge(small, 8.0), both_large, select(ge(large, 8.0), one_large, none_large))


def _log_ratio_less(change: XlaOp, x: XlaOp, factor: XlaOp) -> XlaOp:
    """Return log(1 + change) - change, where 1 + change is x * factor."""
    return select(lt(abs(change), 0.5), log1p_less(change), log(x * factor) - change)


def _beta_fraction(a: XlaOp, b: XlaOp, x: XlaOp, difference: XlaOp, is_used: XlaOp) -> XlaOp:
    """Return a I(a, b, x) / (x^a (1 - x)^b / B(a, b)), given `difference`, a - (a + b) x.

    It is the even part of the continued fraction DLMF 8.17.22, computed by Steed's method, which
    adds the differences of successive convergents. The rounding errors decrease with the
    differences.
    """
    a, b = select(is_used, a, 1.0), select(is_used, b, 1.0)
    x, difference = select(is_used, x, 0.0), select(is_used, difference, 1.0)
    eps = eps_of(x)
    scaled = (a + 1.0) / (difference + 1.0)
    first = scaled / a

    def condition(state: XlaOp) -> XlaOp:
        return and_(lt(state[0], 10000.0), any_of(state[1]))

    def body(state: XlaOp) -> tuple[XlaOp, ...]:
        n, _, a, b, x, difference, inverse, term, total = state
        n = n + 1.0
        base = a + (n * 2.0 - 1.0)
        step = (b - n) * x * (n / base)
        numerator = (a + (n - 1.0)) / base * (a + b + (n - 1.0)) * x * step
        denominator = (a + n) / (base + 2.0) * (difference + 1.0 + n * (2.0 - x)) + n + step
        new = 1.0 / (denominator + numerator * inverse)
        term = neg(numerator * inverse * new * term)
        total = total + term
        return n, gt(abs(term), abs(total) * eps), a, b, x, difference, new, term, total

    counter = a.builder.constant(0.0, kind_of(a))
    start = (counter, is_used, a, b, x, difference, first, scaled, scaled)
    return while_(condition, body, start)[8]
