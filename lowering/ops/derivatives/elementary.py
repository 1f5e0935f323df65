"""Elementary functions of jax.lax whose derivatives neither overflow nor are NaN at regular points.

The formulas of jax have a square or a quotient of squares as intermediate result. In f32 it is 0 or
infinite for numbers that are 1e20 times smaller or larger than 1, and the derivative is 0, infinite
or NaN. Each function here is a primitive of jax with the name, the lowering and the values of the
one in jax.lax, so that programs are the same.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from lowering.jaxlib_api.jax_arrays import alike
from lowering.jaxlib_api.lazy_jax import ad, batching, jax_core, jax_mlir, jnp, lax
from lowering.ops.registry import Step, Value


def _with_slopes(name: str, *slopes: Step) -> Step:
    """Return a function of jax.lax with another derivative for real numbers.

    Args:
        name: the name of the function's primitive.
        slopes: for each operand the tangent of the result, as a function of the operand's tangent,
            the result and the operands.
    """

    @cache
    def primitive() -> Any:
        function, original = getattr(lax, name), getattr(lax, f"{name}_p")
        new: Any = jax_core.Primitive(name)
        new.def_impl(function)
        new.def_effectful_abstract_eval(original.abstract_eval)
        jax_mlir.register_lowering(new, jax_mlir.lower_fun(function, multiple_results=False))
        batch: Any = batching.defbroadcasting if len(slopes) > 1 else batching.defvectorized
        batch(new)
        define: Any = ad.defjvp2
        define(new, *slopes)
        if original in ad.primitive_transposes:
            ad.primitive_transposes[new] = ad.primitive_transposes[original]
        return new

    def step(*operands: Value) -> Value:
        if not jnp.issubdtype(operands[0].dtype, jnp.floating):
            return getattr(lax, name)(*operands)
        if len(operands) > 1:
            operands = tuple(alike(jnp.broadcast_arrays(*operands)))
        return primitive().bind(*operands)

    return step


def _divisor_slope(g: Value, quotient: Value, _: Value, y: Value) -> Value:
    # XLA replaces a quotient of a quotient by one with a product as divisor, which may overflow.
    return g * lax.neg(quotient * divide(lax.full_like(y, 1), y))


def _dividend_slope(g: Value, _: Value, __: Value, y: Value) -> Value:
    return divide(g, y)


divide: Step = _with_slopes("div", _dividend_slope, _divisor_slope)


def _base_slope(g: Value, _: Value, x: Value, y: Value) -> Value:
    # Where the exponent is 0, the result is 1 for all bases.
    is_constant = y == 0
    slope = y * power(x, lax.select(is_constant, lax.full_like(y, 1), y - 1))
    return g * lax.select(is_constant, lax.full_like(y, 0), slope)


def _exponent_slope(g: Value, result: Value, x: Value, _: Value) -> Value:
    logarithm = lax.log(lax.select(x == 0, lax.full_like(x, 1), x))
    # An infinite base has a power of 0.
    is_zero = result == 0
    slope = lax.select(is_zero, lax.full_like(x, 0), logarithm) * result
    return g * slope


power: Step = _with_slopes("pow", _base_slope, _exponent_slope)


def _inverse_square_ratio(x: Value, y: Value) -> tuple[Value, Value]:
    """Return x / (x * x + y * y) and y / (x * x + y * y)."""
    size = lax.max(lax.abs(x), lax.abs(y))
    is_infinite = size == jnp.inf
    scale = lax.select(is_infinite, lax.full_like(size, 1), size)
    inverse = divide(lax.full_like(size, 1), scale)
    ratios = [operand * inverse for operand in (x, y)]
    square = ratios[0] * ratios[0] + ratios[1] * ratios[1]
    first, second = [
        lax.select(is_infinite, lax.full_like(x, 0), divide(ratio, square) * inverse)
        for ratio in ratios
    ]
    return first, second


atan2 = _with_slopes(
    "atan2",
    lambda g, _, y, x: g * _inverse_square_ratio(x, y)[0],
    lambda g, _, y, x: g * lax.neg(_inverse_square_ratio(x, y)[1]),
)


def _asinh_slope(g: Value, _: Value, x: Value) -> Value:
    # For large numbers 1 / sqrt(x * x + 1) is 1 / |x|.
    limits: Any = jnp.finfo(x.dtype)  # type: ignore[no-untyped-call]  # of jax
    is_large = lax.abs(x) > float(limits.eps) ** -0.5
    one = lax.full_like(x, 1)
    near = lax.select(is_large, one, x)
    far = lax.select(is_large, lax.abs(x), one)
    return g * lax.select(is_large, divide(one, far), lax.rsqrt(near * near + 1))


asinh = _with_slopes("asinh", _asinh_slope)

acosh = _with_slopes(
    "acosh",
    lambda g, _, x: g * (lax.rsqrt(x - 1) * lax.rsqrt(x + 1)),
)
