"""Batch normalization by elementwise operations and sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, shape_of
from lowering.portable.elementwise import in_f32
from lowering.portable.expanding import expansion

BATCH_NORMS: Final = tuple(
    f"stablehlo.batch_norm_{name}" for name in ("grad", "inference", "training")
)


class _Features:
    """The features of the array that an operation normalizes.

    Attributes:
        count: the number of elements for each feature.
    """

    def __init__(self, op: XlaOp) -> None:
        self._sizes = shape_of(op.operands[0]).dimensions
        self._feature = op.attributes["feature_index"]
        self._others = [d for d in range(len(self._sizes)) if d != self._feature]
        self._epsilon = float(op.attributes["epsilon"])
        self._element_type = shape_of(op.operands[0]).element_type
        self.count = float(math.prod(self._sizes[d] for d in self._others))

    def sum(self, x: XlaOp) -> XlaOp:
        """Return the sum for each feature."""
        return xb.reduce(x, 0, xb.add, self._others)

    def spread(self, vector: XlaOp) -> XlaOp:
        """Broadcast a vector with a number for each feature to the shape of the array."""
        return xb.broadcast_in_dim(vector, self._sizes, [self._feature])

    def variance_plus_epsilon(self, variance: XlaOp) -> XlaOp:
        """Return the variance plus epsilon, broadcast to the shape of the array."""
        return self.spread(variance) + self._epsilon

    def normalized(
        self, x: XlaOp, scale: XlaOp, offset: XlaOp, mean: XlaOp, variance: XlaOp
    ) -> XlaOp:
        normal = (x - self.spread(mean)) / xb.sqrt(self.variance_plus_epsilon(variance))
        return self.spread(scale) * normal + self.spread(offset)

    def results(self, *values: XlaOp) -> list[XlaOp]:
        """Convert values to the element type of the operation."""
        return [as_type(value, self._element_type) for value in values]


@expansion("batch_norm_inference")
def batch_norm_inference(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """Normalize with the given mean and variance."""
    features = _Features(op)
    (result,) = features.results(features.normalized(*map(in_f32, operands)))
    return result


@expansion("batch_norm_training")
def batch_norm_training(op: XlaOp, operands: Sequence[XlaOp]) -> list[XlaOp]:
    """Compute mean and variance, and normalize with them."""
    features = _Features(op)
    x, scale, offset = map(in_f32, operands)
    mean = features.sum(x) / features.count
    centered = x - features.spread(mean)
    variance = features.sum(centered * centered) / features.count
    normalized = features.normalized(x, scale, offset, mean, variance)
    return features.results(normalized, mean, variance)


@expansion("batch_norm_grad")
def batch_norm_grad(op: XlaOp, operands: Sequence[XlaOp]) -> list[XlaOp]:
    """Compute the gradients with respect to the operand, the scale and the offset."""
    features = _Features(op)
    spread, count = features.spread, features.count
    x, scale, mean, variance, gradient = map(in_f32, operands)
    centered = x - spread(mean)
    squared_deviation = features.variance_plus_epsilon(variance)
    deviation = xb.sqrt(squared_deviation)
    grad_offset = features.sum(gradient)
    projection = spread(features.sum(gradient * centered)) * centered / squared_deviation
    grad_scale = features.sum(gradient * (centered / deviation))
    difference = gradient * count - spread(grad_offset) - projection
    grad_operand = spread(scale) / deviation / count * difference
    return features.results(grad_operand, grad_scale, grad_offset)
