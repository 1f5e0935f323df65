"""Where bounded sizes go in broadcasts and reshapes that StableHLO can't say as they are.

StableHLO has broadcasts and reshapes to one bounded size at the most, and no reshape that says
which part of a size is bounded. HLO text and StableHLO put them in the same other words: a
broadcast of the largest sizes whose sizes are then set, and a `dynamic_reshape`, whose sizes are
worked out.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

from builder.frozen import frozen
from builder.shape import ArrayShape
from builder.shape_inference.reshaping import equal_products
from builder.xla_op import XlaOp

__all__ = [
    "ReshapedSize",
    "broadcast_sizes",
    "is_bounded_broadcast",
    "is_bounded_reshape",
    "loses_a_size",
    "reshaped_sizes",
]


def is_bounded_broadcast(op: XlaOp) -> bool:
    """A broadcast to several bounded sizes."""
    shape = op.shape
    return (
        not shape.is_static
        and isinstance(shape, ArrayShape)
        and shape.is_bounded
        and sum(shape.dynamic_dimensions) > 1
    )


def broadcast_sizes(op: XlaOp) -> dict[int, int | None]:
    """For each bounded dimension of a broadcast's result the operand's that its size is that of.

    None where the operand has none, so that the size is the bound.
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


@frozen
class ReshapedSize:
    """A size of a reshape's result: a product of sizes of the operand, multiplied and divided.

    Attributes:
        dimensions: the bounded dimensions of the operand whose sizes are multiplied.
        factor: of the fixed sizes beside them.
        divisor: of the fixed sizes beside it in the result.
    """

    dimensions: tuple[int, ...]
    factor: int
    divisor: int


def is_bounded_reshape(op: XlaOp) -> bool:
    """A reshape to several bounded sizes, or one in which a bounded size is divided.

    And of no elements: XLA divides by them.
    """
    if op.shape.is_static:
        return False
    source, shape = op.operands[0].shape, op.shape
    assert isinstance(source, ArrayShape)  # inference has said so
    assert isinstance(shape, ArrayShape)
    sizes = reshaped_sizes(source, shape)
    if sizes is None:
        return False
    bounded = [size for size in sizes if isinstance(size, ReshapedSize)]
    return 0 in source.dimensions or len(bounded) > 1 or any(size.divisor > 1 for size in bounded)


def loses_a_size(source: ArrayShape, shape: ArrayShape) -> bool:
    """Whether a reshape makes a bounded size into fixed ones: which elements are there is lost."""
    if source.is_static or not (source.is_bounded and shape.is_bounded):
        return False
    return any(
        any(source.dynamic_dimensions[d] for d in old)
        and not any(shape.dynamic_dimensions[d] for d in new)
        for old, new in _parts(source, shape)
    )


@lru_cache(maxsize=4096)
def reshaped_sizes(source: ArrayShape, shape: ArrayShape) -> tuple[int | ReshapedSize, ...] | None:
    """The sizes of the result of a reshape: those that are fixed, and how the others come about.

    None where they can't be told, or are unbounded.
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
    """The dimensions of operand and result that belong together: as few in a part as there can be.

    A part of sizes of 1 is put to its neighbour where only together their bounded sizes match.
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
    """Whether bounded sizes stand on both sides of a part, one behind, or on neither."""
    before = sum(source.dynamic_dimensions[d] for d in part[0])
    behind = sum(shape.dynamic_dimensions[d] for d in part[1])
    return behind == min(before, 1)
