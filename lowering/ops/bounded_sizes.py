"""Broadcasts and reshapes with several bounded dimensions.

StableHLO's verifier accepts broadcasts and reshapes to at most one bounded dimension. A broadcast
to several is lowered to a broadcast to the bounds, whose sizes are then set; a reshape to several
is lowered to a `dynamic_reshape` with sizes computed at run time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from builder.graph.xla_op import XlaOp
from builder.ops.reshaping import equal_products
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape


def is_bounded_broadcast(op: XlaOp) -> bool:
    """Return whether an op broadcasts to several bounded dimensions."""
    shape = op.shape
    return (
        not shape.is_static
        and isinstance(shape, ArrayShape)
        and shape.is_bounded
        and sum(shape.dynamic_dimensions) > 1
    )


def broadcast_sizes(op: XlaOp) -> dict[int, int | None]:
    """Map each bounded dimension of a broadcast's result to the operand dimension with its size.

    The value is None if the operand's dimension is static, so that the size is the bound.
    """
    source, shape = op.operands[0].shape, op.shape
    assert isinstance(source, ArrayShape)  # checked by inference
    assert isinstance(shape, ArrayShape)
    origins = {
        place: index
        for index, place in enumerate(op.attributes["broadcast_dimensions"])
        if source.dynamic_dimensions[index]
    }
    return {d: origins.get(d) for d in range(shape.rank) if shape.dynamic_dimensions[d]}


@dataclass(frozen=True, slots=True)
class ReshapedSize:
    """A size of a reshape's result: a product of operand sizes, times `factor` / `divisor`.

    Attributes:
        dimensions: the bounded dimensions of the operand whose sizes are multiplied.
        factor: the product of the operand's static sizes in the same part (see `_parts`).
        divisor: the product of the result's static sizes in this part. Both are divided by their
            greatest common divisor.
    """

    dimensions: tuple[int, ...]
    factor: int
    divisor: int


def is_bounded_reshape(op: XlaOp) -> bool:
    """Return whether an op reshapes to several bounded dimensions."""
    source, shape = op.operands[0].shape, op.shape
    if shape.is_static or not isinstance(shape, ArrayShape) or not isinstance(source, ArrayShape):
        return False
    return sum(shape.dynamic_dimensions) > 1 and reshaped_sizes(source, shape) is not None


def loses_a_size(source: ArrayShape, shape: ArrayShape) -> bool:
    """Return whether a reshape makes a bounded dimension static, so that its size is lost."""
    if source.is_static or not (source.is_bounded and shape.is_bounded):
        return False
    return any(
        any(source.dynamic_dimensions[d] for d in old)
        and not any(shape.dynamic_dimensions[d] for d in new)
        for old, new in _parts(source, shape)
    )


@per_signature
def reshaped_sizes(source: ArrayShape, shape: ArrayShape) -> tuple[int | ReshapedSize, ...] | None:
    """Return the sizes of a reshape's result; bounded sizes as functions of the operand's sizes.

    Return None if the sizes are not determined, or if a dimension is unbounded.
    """
    if not (source.is_bounded and shape.is_bounded):
        return None
    sizes: list[int | ReshapedSize] = list(shape.dimensions)
    for old, new in _parts(source, shape):
        bounded = [d for d in old if source.dynamic_dimensions[d]]
        results = [d for d in new if shape.dynamic_dimensions[d]]
        if len(results) > 1 or bool(bounded) != bool(results):
            return None
        if results:
            factor = math.prod(source.dimensions[d] for d in old if d not in bounded)
            divisor = math.prod(shape.dimensions[d] for d in new if d not in results)
            common = math.gcd(factor, divisor) or 1
            sizes[results[0]] = ReshapedSize(tuple(bounded), factor // common, divisor // common)
    return tuple(sizes)


def _parts(source: ArrayShape, shape: ArrayShape) -> list[tuple[range, range]]:
    """Split the dimensions of operand and result into minimal parts with the same elements.

    A part of size 1 is joined with its neighbor if one of the two does not satisfy `_matches`.
    """
    cuts = equal_products(source.dimensions, shape.dimensions)
    parts: list[tuple[range, range]] = []
    for (i, j), (i_end, j_end) in pairwise(cuts):
        part = range(i, i_end), range(j, j_end)
        if parts and not (_matches(source, shape, parts[-1]) and _matches(source, shape, part)):
            joined = range(parts[-1][0].start, i_end), range(parts[-1][1].start, j_end)
            if any(
                math.prod(source.dimensions[d] for d in old) == 1 for old in (parts[-1][0], part[0])
            ):
                parts[-1] = joined
                continue
        parts.append(part)
    return parts


def _matches(source: ArrayShape, shape: ArrayShape, part: tuple[range, range]) -> bool:
    """Return whether the result has the required number of bounded dimensions in `part`.

    The required number is 1 if the operand has bounded dimensions in `part`, else 0.
    """
    old, new = part
    bounded = any(source.dynamic_dimensions[d] for d in old)
    return sum(shape.dynamic_dimensions[d] for d in new) == bounded
