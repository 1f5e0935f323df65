"""The incomplete beta function."""

from __future__ import annotations

import math

from builder.errors import OperandError, ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.math import array_shape, floating_type, refuse_unbounded
from builder.lib.registry import library_function
from builder.lib.special.gamma_functions import wide_lgamma
from builder.lib.special.shared import any_of, eps_of, in_f32, kind_of
from builder.ops.control_flow import while_
from builder.ops.elementwise import (
    abs,
    and_,
    eq,
    exp,
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
)
from builder.types import primitive_type as pt


@library_function("RegularizedIncompleteBeta")
def regularized_incomplete_beta(a: XlaOp, b: XlaOp, x: XlaOp) -> XlaOp:
    """Return the regularized incomplete beta function I(a, b, x).

    The result is NaN where a or b is not positive, or x is outside [0, 1].

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
        rule = f"a, b and x must be of f16, bf16, f32 or f64, got {kind}"
        raise error_of(OperandError, name, rule, "convert them with xb.convert_element_type")
    refuse_unbounded(name, a=a, b=b, x=x)
    # Each becomes an array of the common shape.
    is_nan = or_(or_(ne(a, a), ne(b, b)), ne(x, x))
    if array_shape(name, "a", a).rank < array_shape(name, "x", is_nan).rank:
        rule = f"a must have the sizes of the result, got {a.shape}, {b.shape} and {x.shape}"
        raise error_of(ShapeInferenceError, name, rule, "broadcast it with xb.broadcast")
    a, b, x = (select(is_nan, math.nan, operand) for operand in (a, b, x))
    return in_f32(_incomplete_beta, a, b, x)


def _incomplete_beta(a: XlaOp, b: XlaOp, x: XlaOp) -> XlaOp:
    is_undefined = or_(or_(le(a, 0.0), le(b, 0.0)), or_(lt(x, 0.0), gt(x, 1.0)))
    is_undefined = or_(is_undefined, ne(x, x))
    is_direct = lt(x, (a + 1.0) / (a + b + 2.0))
    one, other = select(is_direct, a, b), select(is_direct, b, a)
    rest = 1.0 - x
    here, there = select(is_direct, x, rest), select(is_direct, rest, x)
    fraction = _beta_fraction(one, other, here, not_(is_undefined))
    # log1p has the accuracy of numbers near 1, whose difference from 1 is rounded.
    log_here = select(is_direct, log(here), log1p(neg(x)))
    log_there = select(is_direct, log1p(neg(x)), log(there))
    beta = wide_lgamma(a) + wide_lgamma(b) - wide_lgamma(a + b)
    value = fraction * exp(log_here * one + log_there * other - beta) / one
    value = select(is_direct, value, 1.0 - value)
    value = select(eq(x, 0.0), 0.0, select(eq(x, 1.0), 1.0, value))
    return select(is_undefined, math.nan, value)


def _beta_fraction(a: XlaOp, b: XlaOp, x: XlaOp, is_used: XlaOp) -> XlaOp:
    """Return the continued fraction 1 / (1 + d1 / (1 + d2 / ...)) of DLMF 8.17.22."""
    a, b = select(is_used, a, 1.0), select(is_used, b, 1.0)
    x = select(is_used, x, 0.0)
    eps, tiny = eps_of(x), 1e-30

    def condition(state: XlaOp) -> XlaOp:
        return and_(lt(state[0], 10000.0), any_of(state[1]))

    def step(numerator: XlaOp, up: XlaOp, down: XlaOp) -> tuple[XlaOp, XlaOp]:
        up, down = numerator / up + 1.0, numerator * down + 1.0
        up = select(lt(abs(up), tiny), tiny, up)
        return up, 1.0 / select(lt(abs(down), tiny), tiny, down)

    def body(state: XlaOp) -> tuple[XlaOp, ...]:
        m, _, a, b, x, up, down, value = state
        base = a + m * 2.0
        up, down = step(neg((a + m) / base * ((a + b + m) / (base + 1.0)) * x), up, down)
        first = up * down
        m = m + 1.0
        base = a + m * 2.0
        up, down = step(m / (base - 1.0) * ((b - m) / base) * x, up, down)
        ratio = up * down
        is_left = or_(gt(abs(ratio - 1.0), eps), gt(abs(first - 1.0), eps))
        return m, is_left, a, b, x, up, down, value * first * ratio

    one = a * 0.0 + 1.0
    counter = a.builder.constant(0.0, kind_of(a))
    state = while_(condition, body, (counter, is_used, a, b, x, one, a * 0.0, one))
    return 1.0 / state[7]
