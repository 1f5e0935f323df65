"""Batch normalization: the values are XLA's, the derivatives those of the definitions."""

from __future__ import annotations

import math
from collections.abc import Callable

from jax import lax

from builder.graph.xla_op import XlaOp
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.registry import Context, Step, Value, array_of, rule, with_derivative_of


class _Features:
    """The dimensions of an array of features."""

    def __init__(self, op: XlaOp) -> None:
        self.sizes = array_of(op.operands[0].shape).dimensions
        self.feature: int = op.attributes["feature_index"]
        self.epsilon: float = op.attributes["epsilon"]
        self.others = tuple(d for d in range(len(self.sizes)) if d != self.feature)
        self.count = math.prod(self.sizes[d] for d in self.others)

    def along(self, values: Value) -> Value:
        """Broadcast a value for each feature."""
        return lax.broadcast_in_dim(values, self.sizes, (self.feature,))

    def mean(self, array: Value) -> Value:
        """Return the mean of each feature."""
        total = lax.reduce_sum(array, axes=self.others)
        return lax.div(total, lax.full_like(total, self.count))

    def inverse_deviation(self, variance: Value) -> Value:
        return lax.rsqrt(lax.add(variance, lax.full_like(variance, self.epsilon)))


def _normalized(f: _Features, operand: Value, mean: Value, variance: Value) -> Value:
    centered = lax.sub(operand, f.along(mean))
    return lax.mul(centered, f.along(f.inverse_deviation(variance)))


def _inference(f: _Features) -> Callable[..., Value]:
    def step(operand: Value, scale: Value, offset: Value, mean: Value, variance: Value) -> Value:
        scaled = lax.mul(_normalized(f, operand, mean, variance), f.along(scale))
        return lax.add(scaled, f.along(offset))

    return step


@rule("batch_norm_inference")
def batch_norm_inference(ctx: Context, op: XlaOp) -> Step:
    return with_derivative_of(pasted(ctx.computation, op), _inference(_Features(op)))


@rule("batch_norm_training")
def batch_norm_training(ctx: Context, op: XlaOp) -> Step:
    f = _Features(op)
    inference = _inference(f)

    def differentiable(operand: Value, scale: Value, offset: Value) -> Value:
        mean = f.mean(operand)
        centered = lax.sub(operand, f.along(mean))
        variance = f.mean(lax.mul(centered, centered))
        return inference(operand, scale, offset, mean, variance), mean, variance

    return with_derivative_of(pasted(ctx.computation, op), differentiable)


@rule("batch_norm_grad")
def batch_norm_grad(ctx: Context, op: XlaOp) -> Step:
    f = _Features(op)

    def differentiable(
        operand: Value, scale: Value, mean: Value, variance: Value, grad_output: Value
    ) -> Value:
        normalized = _normalized(f, operand, mean, variance)
        grad_offset = lax.reduce_sum(grad_output, axes=f.others)
        grad_scale = lax.reduce_sum(lax.mul(grad_output, normalized), axes=f.others)
        count = lax.full_like(grad_offset, f.count)
        mean_grad = f.along(lax.div(grad_offset, count))
        projected = lax.mul(normalized, f.along(lax.div(grad_scale, count)))
        factor = f.along(lax.mul(scale, f.inverse_deviation(variance)))
        centered = lax.sub(lax.sub(grad_output, mean_grad), projected)
        return lax.mul(factor, centered), grad_scale, grad_offset

    return with_derivative_of(pasted(ctx.computation, op), differentiable)
