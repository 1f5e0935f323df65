"""The functions of `builder.lib` with derivatives of their own, as differentiable jax functions.

The ops that such a function records may be an approximation by cases, whose derivative is
inaccurate or NaN where the function is smooth, or may have a derivative that is slower. The
function here has the same parameters, and arrays for ops. Only its derivative is used; the values
are those of the recorded ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, wraps
from inspect import signature
from itertools import pairwise
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from builder import lib
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.lib.special import bessel_functions as bessel
from builder.lib.special.incomplete_beta import slope_of_incomplete_beta
from builder.lib.special.incomplete_gamma import gamma_density
from builder.lib.special.zeta_functions import positive_zeta
from builder.types.shape import ArrayShape, array_shape
from lowering.jax_interop.evaluation import Preparation
from lowering.jax_interop.inlined_calls import LIBRARY_FUNCTIONS, NoDerivativeError
from lowering.ops.derivatives import Tangents, with_tangents
from lowering.ops.registry import Value


def _entry(function: Callable[..., Value]) -> Callable[..., Value]:
    """Add a function to `LIBRARY_FUNCTIONS`. Types of at most 16 bits are computed in f32."""

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Value:
        given = [*arguments, *named.values()]
        kinds = [v.dtype for v in given if hasattr(v, "dtype")]
        result = function(*map(_wide, arguments), **{n: _wide(v) for n, v in named.items()})
        return lax.convert_element_type(result, kinds[0])

    LIBRARY_FUNCTIONS[function.__name__] = called
    return called


def _wide(argument: Any) -> Any:
    dtype = getattr(argument, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.floating) or dtype.itemsize > 2:
        return argument
    return lax.convert_element_type(argument, jnp.float32)


def _evaluated(function: Callable[..., XlaOp], *operands: Value) -> Value:
    """Return the result of a function of ops for arrays."""
    shapes = tuple([array_shape(operand.dtype, jnp.shape(operand)) for operand in operands])
    return _jax_function(function, shapes)(*operands)


@lru_cache(maxsize=256)
def _jax_function(
    function: Callable[..., XlaOp], shapes: tuple[ArrayShape, ...]
) -> Callable[..., Value]:
    builder = XlaBuilder(function.__name__)
    result = function(*[builder.parameter(shape) for shape in shapes])
    for op in builder.ops:
        op._code = None  # the line is not the user's
    computation = builder.build(result)
    return Preparation(computation, None).function(computation)


# A function of the operands, or None if there is no derivative.
_Slope = Callable[..., Value] | None


def _slopes(*slopes: _Slope, fix: str = "") -> Callable[[Callable[..., Value]], Any]:
    """Return a decorator that defines the partial derivatives of a function, and enters it.

    Args:
        slopes: the partial derivative by each operand.
        fix: the fix in the message if a derivative that does not exist is needed.
    """

    def decorate(function: Callable[..., Value]) -> Any:
        names = tuple(signature(function).parameters)

        def tangent_of(operands: Sequence[Value], _: Value, tangents: Tangents) -> Value | None:
            total = None
            for name, slope, tangent in zip(names, slopes, tangents, strict=True):
                if tangent is None:
                    continue
                if slope is None:
                    raise NoDerivativeError(function.__name__, name, fix)
                term = slope(*operands) * tangent
                total = term if total is None else total + term
            return total

        return _entry(wraps(function)(with_tangents(function, tangent_of)))

    return decorate


def _where(condition: Value, on_true: Any, on_false: Any) -> Value:
    return jnp.where(condition, on_true, on_false)


# Activations and losses.

LIBRARY_FUNCTIONS["relu"] = jax.nn.relu


@_entry
def gelu(x: Value, approximate: bool = True) -> Value:
    # From 40 on, the distribution function is 0 or 1 and its derivative 0, in f64 too.
    near = _where(lax.abs(x) >= 40.0, 0.0, x)  # a NaN remains
    if approximate:
        factor = 2 * math.sqrt(2 / math.pi)
        product = near * lax.logistic(near * (factor + factor * 0.044715 * (near * near)))
    else:
        product = jax.nn.gelu(near, approximate=False)
    return _where(x >= 40.0, x, product)


@_entry
def cross_entropy(logits: Value, labels: Value, axis: int = -1) -> Value:
    logarithms = jax.nn.log_softmax(logits, axis)
    if jnp.issubdtype(labels.dtype, jnp.integer):
        numbers = lax.broadcasted_iota(labels.dtype, logits.shape, axis % logits.ndim)
        chosen = _where(numbers == jnp.expand_dims(labels, axis), logarithms, 0.0)
        return -chosen.sum(axis)
    is_left_out = (labels == 0) & (logarithms == -jnp.inf)
    return -(labels * _where(is_left_out, 0.0, logarithms)).sum(axis)


# Maxima and logarithms of sums.


@_entry
def largest_number(x: Value, dimensions: Sequence[int]) -> Value:
    return lax.stop_gradient(x.max(tuple(dimensions)))


def _parts_between(x: Value, edges: Sequence[int], dimension: int) -> Sequence[Value]:
    sizes = [limit - start for start, limit in pairwise(edges)]
    return lax.split(x, sizes, dimension)


LIBRARY_FUNCTIONS["parts_between"] = _parts_between


@_entry
def logsumexp(x: Value, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
    axes = tuple(axis) if isinstance(axis, Sequence) else axis
    result = _log_of_sum(x, axes)
    return result if keepdims else result.squeeze(range(x.ndim) if axes is None else axes)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _log_of_sum(x: Value, axes: Any) -> Value:
    return jax.nn.logsumexp(x, axes, keepdims=True)


@_log_of_sum.defjvp
def _log_of_sum_derivative(axes: Any, operands: Any, tangents: Any) -> Any:
    (x,), (tangent,) = operands, tangents
    result = _log_of_sum(x, axes)
    is_infinite = jnp.isinf(result)
    weights = lax.exp(x - _where(is_infinite, 0.0, result))
    # An infinite result is the maximum.
    is_largest = (x == result).astype(x.dtype)
    shares = is_largest / jnp.maximum(is_largest.sum(axes, keepdims=True), 1)
    weights = _where(is_infinite, shares, weights)
    return result, (weights * tangent).sum(axes, keepdims=True)


def _cumulative(
    function: Callable[..., Value], first: float, x: Value, axis: int, reverse: bool, before: bool
) -> Value:
    """Return a cumulative function of jax along an axis.

    Args:
        function: the function.
        first: the result for no elements.
        x, axis, reverse: its operands.
        before: whether to leave out the element at each position.
    """
    axis %= x.ndim
    if before:
        config = [(0, 0, 0)] * x.ndim
        config[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
        x = lax.pad(x, jnp.asarray(first, x.dtype), config)
    return function(x, axis=axis, reverse=reverse)


@_entry
def cummax(x: Value, axis: int, reverse: bool = False, exclusive: bool = False) -> Value:
    return _cumulative(lax.cummax, -jnp.inf, x, axis, reverse, exclusive)


@_entry
def cummin(x: Value, axis: int, reverse: bool = False, exclusive: bool = False) -> Value:
    return _cumulative(lax.cummin, jnp.inf, x, axis, reverse, exclusive)


@_entry
def cumlogsumexp(x: Value, axis: int, reverse: bool = False, exclusive: bool = False) -> Value:
    scan = partial(lax.associative_scan, _log_add)
    return _cumulative(scan, -jnp.inf, x, axis, reverse, exclusive)


@jax.custom_jvp
def _log_add(x: Value, y: Value) -> Value:
    return jnp.logaddexp(x, y)


@_log_add.defjvp
def _log_add_derivative(operands: Any, tangents: Any) -> Any:
    result = _log_add(*operands)
    is_infinite = jnp.isinf(result)
    finite = _where(is_infinite, 0.0, result)
    is_tie = operands[0] == operands[1]
    total = lax.full_like(result, 0)
    for operand, tangent in zip(operands, tangents, strict=True):
        # An infinite result is the maximum.
        share = _where(operand == result, _where(is_tie, 0.5, 1.0), 0.0)
        total = total + _where(is_infinite, share, lax.exp(operand - finite)) * tangent
    return result, total


@_entry
def det(a: Value) -> Value:
    size = a.shape[-1]
    if size < 4:
        return jnp.linalg.det(a)  # a polynomial
    # The rule of jax requires that only the last pivot is 0: so of a matrix of rotated columns.
    pivots = jnp.diagonal(lax.linalg.lu(lax.stop_gradient(a))[0], axis1=-2, axis2=-1)
    has_rule = (pivots[..., :-1] != 0).all(-1)
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(size, size)))
    rotated = jnp.matmul(a, rotation.astype(a.dtype), precision=lax.Precision.HIGHEST)
    turned = jnp.linalg.det(rotated) * round(float(np.linalg.det(rotation)))
    return _where(has_rule, jnp.linalg.det(a), turned)


# Special functions.


@_slopes(partial(_evaluated, lib.digamma))
def lgamma(x: Value) -> Value:
    return lax.lgamma(x)


@_slopes(lambda x: _evaluated(lib.polygamma, lax.full_like(x, 1), x))
def digamma(x: Value) -> Value:
    return lax.digamma(x)


@_slopes(
    None,
    lambda n, x: _evaluated(lib.polygamma, n + 1, x),
    fix="pass orders that do not depend on it, for instance lib.full_like(x, 1)",
)
def polygamma(n: Value, x: Value) -> Value:
    return lax.polygamma(n, x)


def _exponent_slope(x: Value, q: Value) -> Value:
    # For negative bases, zeta is defined for integers only.
    is_regular = (x > 1) & (q > 0)
    exponents, bases = _where(is_regular, x, 2.0), _where(is_regular, q, 1.0)
    zeta = partial(_evaluated, positive_zeta)
    _, slope = jax.jvp(lambda x: zeta(x, bases), [exponents], [lax.full_like(x, 1)])
    return _where(is_regular, slope, jnp.nan)


@_slopes(_exponent_slope, lambda x, q: -x * _evaluated(lib.zeta, x + 1, q))
def zeta(x: Value, q: Value) -> Value:
    return lax.zeta(x, q)


@_entry
def erfc(x: Value) -> Value:
    return lax.erfc(x)


@_slopes(lambda x: 0.5 * math.sqrt(math.pi) * lax.exp(_evaluated(lib.erf_inv, x) ** 2))
def erf_inv(x: Value) -> Value:
    return lax.erf_inv(x)


def _bessel_series(x: Value, near: Callable[..., XlaOp], far: Callable[..., XlaOp]) -> Any:
    """Return where |x| is above 8, and the values of both series for |x|."""
    size = x * lax.sign(x)  # with a derivative of 0 at 0
    is_far = size > 8
    first = _evaluated(near, _where(is_far, 8.0, size))
    return is_far, first, _evaluated(far, _where(is_far, size, 8.0))


@_entry
def bessel_i0e(x: Value) -> Value:
    is_far, near, far = _bessel_series(x, bessel.i0e_near, bessel.i0e_far)
    return _where(is_far, far, near)


@_entry
def bessel_i1e(x: Value) -> Value:
    is_far, near, far = _bessel_series(x, bessel.i1e_near, bessel.i1e_far)
    return _where(is_far, lax.sign(x) * far, x * near)


def _gamma_slope(a: Value, x: Value) -> Value:
    """Return the density of the gamma distribution, the derivative of `igamma` by x."""
    is_inside = (a > 0) & (a < jnp.inf) & (x > 0) & (x < jnp.inf)
    shape, point = _where(is_inside, a, 1.0), _where(is_inside, x, 1.0)
    is_large = shape >= 8
    large = _evaluated(gamma_density, shape, point) / point
    shape = _where(is_large, 1.0, shape)
    exponent = (shape - 1) * lax.log(point) - point - _evaluated(lib.lgamma, shape)
    inside = _where(is_large, large, lax.exp(exponent))
    at_0 = _where(a < 1, jnp.inf, _where(a == 1, 1.0, 0.0))
    outside = _where((x < 0) | (a <= 0) | (x != x) | (a != a), jnp.nan, 0.0)
    return _where(is_inside, inside, _where((x == 0) & (a > 0), at_0, outside))


@_slopes(partial(_evaluated, lib.igamma_grad_a), _gamma_slope)
def igamma(a: Value, x: Value) -> Value:
    return lax.igamma(a, x)


def _upper(slope: Callable[..., Value]) -> _Slope:
    """Return the derivative of `igammac`, given that of `igamma`; it is 1 outside the domain."""
    return lambda a, x: _where((a <= 0) | (x < 0), 0.0, -slope(a, x))


@_slopes(_upper(partial(_evaluated, lib.igamma_grad_a)), _upper(_gamma_slope))
def igammac(a: Value, x: Value) -> Value:
    return lax.igammac(a, x)


_FIX: Final = "write the derivative with xb.custom_gradient"


def _slope_of_gradient(a: Value, x: Value) -> Value:
    density = _gamma_slope(a, x)
    slope = density * (lax.log(x) - _evaluated(lib.digamma, a))
    return _where(density == 0, 0.0, slope)


@_slopes(None, _slope_of_gradient, fix=_FIX)
def igamma_grad_a(a: Value, x: Value) -> Value:
    return lax.igamma_grad_a(a, x)


@_slopes(None, None, fix=_FIX)
def random_gamma_grad(a: Value, x: Value) -> Value:
    return lax.random_gamma_grad(a, x)


def _beta_slope(a: Value, b: Value, x: Value) -> Value:
    a, b, x = jnp.broadcast_arrays(a, b, x)
    is_inside = (x > 0) & (x < 1) & (a > 0) & (b > 0) & (a < jnp.inf) & (b < jnp.inf)
    one = lax.full_like(x, 1)
    inside = _evaluated(
        slope_of_incomplete_beta,
        *[_where(is_inside, operand, one) for operand in (a, b)],
        _where(is_inside, x, one / 2),
    )
    # The exponent of the factor that is 0 at an end, and the other parameter.
    exponent, other = _where(x == 0, a, b), _where(x == 0, b, a)
    at_end = _where(exponent < 1, jnp.inf, _where(exponent == 1, other, 0.0))
    is_end = ((x == 0) | (x == 1)) & (a > 0) & (b > 0)
    return _where(is_inside, inside, _where(is_end, at_end, jnp.nan))


@_slopes(None, None, _beta_slope, fix=_FIX)
def regularized_incomplete_beta(a: Value, b: Value, x: Value) -> Value:
    return lax.betainc(*jnp.broadcast_arrays(a, b, x))


@_slopes(
    None,
    None,
    fix="if it is a constant for the derivative, pass the operands through lib.stop_gradient",
)
def next_after(from_: Value, to: Value) -> Value:
    return lax.nextafter(*jnp.broadcast_arrays(from_, to))
