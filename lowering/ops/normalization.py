"""Batch normalization: the values are XLA's, the derivatives those of the definitions.

The derivatives use the means and variances among the results. All factors of a feature are applied
to the tangents before they are summed up. So reverse mode needs the sums of two arrays, as a
normalization by hand: of the gradient, and of its product with the normalized operand.

Tangents are computed at least in f32, in which XLA's statistics of f16 and bf16 are accumulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from builder.graph.xla_op import XlaOp
from lowering.jaxlib_api.lazy_jax import lax
from lowering.ops.derivatives import Tangents, with_tangents
from lowering.ops.registry import Context, Step, Value, array_of, jax_rule

if TYPE_CHECKING:
    pass


class _Features:
    """The dimensions of an array of features, and what is computed for each feature."""

    def __init__(self, op: XlaOp) -> None:
        shape = array_of(op.operands[0].shape)
        self.sizes = shape.dimensions
        self.feature: int = op.attributes["feature_index"]
        self.epsilon: float = op.attributes["epsilon"]
        self.others = tuple(d for d in range(len(self.sizes)) if d != self.feature)
        self.count = math.prod(self.sizes[d] for d in self.others)
        self.dtype = shape.element_type.dtype
        self.is_narrow = shape.element_type.bits < 32

    def wide(self, values: Sequence[Any]) -> list[Any]:
        """Return values in the type in which tangents are computed."""
        if not self.is_narrow:
            return list(values)
        dtype = np.dtype(np.float32)
        return [None if v is None else lax.convert_element_type(v, dtype) for v in values]

    def narrowed(self, values: Sequence[Value | None]) -> tuple[Value | None, ...]:
        """Return tangents in the element type of the op."""
        return tuple(None if v is None else lax.convert_element_type(v, self.dtype) for v in values)

    def along(self, values: Value) -> Value:
        """Broadcast a value for each feature."""
        return lax.broadcast_in_dim(values, self.sizes, (self.feature,))

    def scaled(self, values: Value, array: Value) -> Value:
        """Multiply each feature of an array by a value."""
        return lax.mul(self.along(values), array)

    def sum(self, array: Value) -> Value:
        """Return the sum of each feature."""
        return lax.reduce_sum(array, axes=self.others)

    def mean(self, array: Value) -> Value:
        """Return the mean of each feature."""
        total = self.sum(array)
        return lax.div(total, lax.full_like(total, self.count))

    def centered(self, array: Value, mean: Value) -> Value:
        """Subtract the mean of each feature.

        It is added as a negated value. So the derivative by the mean is the negated sum of the
        gradient, and not the sum of the negated gradient.
        """
        return lax.add(array, self.along(lax.neg(mean)))

    def inverse_deviation(self, variance: Value) -> Value:
        return lax.rsqrt(lax.add(variance, lax.full_like(variance, self.epsilon)))


def _multiple(factor: float, value: Value) -> Value:
    return lax.mul(lax.full_like(value, factor), value)


def _total(*terms: Value | None) -> Value | None:
    """Return the sum of terms; None, for zeros, if all are None."""
    given = [term for term in terms if term is not None]
    return reduce(lax.add, given) if given else None


def _applied(function: Callable[[Value], Value], tangent: Value | None) -> Value | None:
    """Return a linear function of a tangent."""
    return None if tangent is None else function(tangent)


@jax_rule("batch_norm_training")
def jax_batch_norm_training(ctx: Context, op: XlaOp) -> Step:
    f = _Features(op)

    def tangents_of(operands: Sequence[Value], results: Value, tangents: Tangents) -> Value:
        operand, scale, mean, variance = f.wide([*operands[:2], *results[1:]])
        d_operand, d_scale, d_offset = f.wide(tangents)
        centered = f.centered(operand, mean)
        if f.is_narrow:
            # The results are rounded. The mean is not, if the error of the rounded one is removed.
            error = f.mean(centered)
            variance = lax.sub(f.mean(lax.mul(centered, centered)), lax.mul(error, error))
            centered = f.centered(centered, error)
        inverse = f.inverse_deviation(variance)
        normalized = f.scaled(inverse, centered)

        def of_operand(tangent: Value) -> Value:
            scaled = f.scaled(lax.mul(scale, inverse), tangent)
            projected = lax.neg(f.mean(lax.mul(normalized, scaled)))
            return lax.add(f.centered(scaled, f.mean(scaled)), f.scaled(projected, normalized))

        d_result = _total(
            _applied(of_operand, d_operand),
            _applied(lambda tangent: f.scaled(tangent, normalized), d_scale),
            _applied(f.along, d_offset),
        )
        d_mean = _applied(f.mean, d_operand)
        d_variance = _applied(
            lambda tangent: _multiple(2, f.mean(lax.mul(centered, tangent))), d_operand
        )
        return f.narrowed([d_result, d_mean, d_variance])

    return with_tangents(ctx.pasted(op), tangents_of)


@jax_rule("batch_norm_inference")
def jax_batch_norm_inference(ctx: Context, op: XlaOp) -> Step:
    f = _Features(op)

    def tangents_of(operands: Sequence[Value], _: Value, tangents: Tangents) -> Value | None:
        operand, scale, _, mean, variance = f.wide(operands)
        d_operand, d_scale, d_offset, d_mean, d_variance = f.wide(tangents)
        inverse = f.inverse_deviation(variance)
        normalized = f.scaled(inverse, f.centered(operand, mean))
        factor = lax.mul(scale, inverse)
        half = _multiple(-0.5, lax.mul(factor, inverse))
        added = _total(d_offset, _applied(lambda tangent: -lax.mul(factor, tangent), d_mean))
        scaled = _total(d_scale, _applied(lambda tangent: lax.mul(half, tangent), d_variance))
        d_result = _total(
            _applied(lambda tangent: f.scaled(factor, tangent), d_operand),
            _applied(lambda tangent: f.scaled(tangent, normalized), scaled),
            _applied(f.along, added),
        )
        return f.narrowed([d_result])[0]

    return with_tangents(ctx.pasted(op), tangents_of)


@jax_rule("batch_norm_grad")
def jax_batch_norm_grad(ctx: Context, op: XlaOp) -> Step:
    f = _Features(op)

    def tangents_of(operands: Sequence[Value], results: Value, tangents: Tangents) -> Value:
        operand, scale, mean, variance, gradient = f.wide(operands)
        d_operand, d_scale, d_mean, d_variance, d_gradient = f.wide(tangents)
        inverse = f.inverse_deviation(variance)
        normalized = f.scaled(inverse, f.centered(operand, mean))
        factor = lax.mul(scale, inverse)
        half = _multiple(-0.5, lax.mul(inverse, inverse))
        if f.is_narrow:  # the results are rounded
            mean_product, mean_gradient = f.mean(lax.mul(gradient, normalized)), f.mean(gradient)
        else:
            mean_product, mean_gradient = (
                lax.div(total, lax.full_like(total, f.count)) for total in results[1:]
            )
        centered = lax.sub(f.centered(gradient, mean_gradient), f.scaled(mean_product, normalized))
        d_normalized = _total(
            _applied(lambda tangent: f.scaled(inverse, tangent), d_operand),
            _applied(lambda tangent: f.along(-lax.mul(inverse, tangent)), d_mean),
            _applied(lambda tangent: f.scaled(lax.mul(half, tangent), normalized), d_variance),
        )
        d_product = _total(
            _applied(lambda tangent: lax.mul(gradient, tangent), d_normalized),
            _applied(lambda tangent: lax.mul(normalized, tangent), d_gradient),
        )
        d_centered = _total(
            _applied(lambda tangent: f.centered(tangent, f.mean(tangent)), d_gradient),
            _applied(lambda tangent: f.scaled(-mean_product, tangent), d_normalized),
            _applied(lambda tangent: f.scaled(-f.mean(tangent), normalized), d_product),
        )
        d_factor = _total(
            _applied(lambda tangent: lax.mul(inverse, tangent), d_scale),
            _applied(lambda tangent: lax.mul(lax.mul(factor, half), tangent), d_variance),
        )
        d_result = _total(
            _applied(lambda tangent: f.scaled(factor, tangent), d_centered),
            _applied(lambda tangent: f.scaled(tangent, centered), d_factor),
        )
        return f.narrowed([d_result, _applied(f.sum, d_product), _applied(f.sum, d_gradient)])

    return with_tangents(ctx.pasted(op), tangents_of)
