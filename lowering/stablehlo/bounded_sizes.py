"""The bounded sizes of broadcasts and reshapes.

StableHLO's verifier accepts broadcasts and reshapes to one bounded size at most. Those to several
are lowered to a broadcast in the largest size, whose sizes are then set, and to a
`dynamic_reshape` of computed sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from builder.graph.xla_op import XlaOp
from builder.shape_inference.reshaping import equal_products
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape

__all__ = [
    "ReshapedSize",
    "broadcast_sizes",
    "is_bounded_broadcast",
    "is_bounded_reshape",
    "loses_a_size",
    "reshaped_sizes",
]


def is_bounded_broadcast(op: XlaOp) -> bool:
    """Whether an op broadcasts to several bounded sizes."""
    shape = op.shape
    return (
        not shape.is_static
        and isinstance(shape, ArrayShape)
        and shape.is_bounded
        and sum(shape.dynamic_dimensions) > 1
    )


def broadcast_sizes(op: XlaOp) -> dict[int, int | None]:
    """The dimension of the operand that gives the size of each bounded dimension of the result.

    None if the operand's is fixed, so that the size is the bound.
    """
    source, shape = op.operands[0].shape, op.shape
    assert isinstance(source, ArrayShape)  # inference has said so
    assert isinstance(shape, ArrayShape)
    origins = {
        place: index
        for index, place in enumerate(op.attributes["broadcast_dimensions"])
        if source.dynamic_dimensions[index]
    }
    return {d: origins.get(d) for d in range(shape.rank) if shape.dynamic_dimensions[d]}


@dataclass(frozen=True, slots=True)
class ReshapedSize:
    """A size of a reshape's result: a product of sizes of the operand, multiplied and divided.

    Attributes:
        dimensions: the bounded dimensions of the operand whose sizes are multiplied.
        factor: the product of the fixed sizes beside them.
        divisor: the product of the fixed sizes beside it in the result.
    """

    dimensions: tuple[int, ...]
    factor: int
    divisor: int


def is_bounded_reshape(op: XlaOp) -> bool:
    """Whether an op reshapes to several bounded sizes."""
    source, shape = op.operands[0].shape, op.shape
    if shape.is_static or not isinstance(shape, ArrayShape) or not isinstance(source, ArrayShape):
        return False
    return sum(shape.dynamic_dimensions) > 1 and reshaped_sizes(source, shape) is not None


def loses_a_size(source: ArrayShape, shape: ArrayShape) -> bool:
    """Whether a reshape turns a bounded size into fixed ones, so that the size is lost."""
    if source.is_static or not (source.is_bounded and shape.is_bounded):
        return False
    return any(
        any(source.dynamic_dimensions[d] for d in old)
        and not any(shape.dynamic_dimensions[d] for d in new)
        for old, new in _parts(source, shape)
    )


@per_signature
def reshaped_sizes(source: ArrayShape, shape: ArrayShape) -> tuple[int | ReshapedSize, ...] | None:
    """The sizes of the result of a reshape, the bounded ones as functions of the operand's.

    None if they are not determined, or unbounded.
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
    """The dimensions of operand and result that hold the same elements, in minimal parts.

    A part of sizes of 1 is joined with its neighbour where only together their bounded sizes match.
    """
    cuts = equal_products(source.dimensions, shape.dimensions)
    parts: list[tuple[range, range]] = []
    for (i, j), (i_end, j_end) in pairwise(cuts):
        part = range(i, i_end), range(j, j_end)
        if parts and not (_matches(source, shape, parts[-1]) and _matches(source, shape, part)):
            joined = range(parts[-1][0].start, i_end), range(parts[-1][1].start, j_end)
            if 1 in (_count(source, parts[-1][0]), _count(source, part[0])):
                parts[-1] = joined
                continue
        parts.append(part)
    return parts


def _count(source: ArrayShape, dimensions: range) -> int:
    return math.prod(source.dimensions[d] for d in dimensions)


def _matches(source: ArrayShape, shape: ArrayShape, part: tuple[range, range]) -> bool:
    """Whether both sides of a part have bounded sizes, the result one, or neither has."""
    before = sum(source.dynamic_dimensions[d] for d in part[0])
    behind = sum(shape.dynamic_dimensions[d] for d in part[1])
    return behind == min(before, 1)
