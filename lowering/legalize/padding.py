"""Rewrites of paddings that XLA partitions incorrectly."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir

from lowering.legalize.op_builder import OpBuilder, integers_of
from lowering.legalize.partitions import is_manual
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite


@rewrite("stablehlo.pad", platforms=ALL_PLATFORMS)
def padding_of_partitions(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace interior padding by padding of added dimensions, and negative padding by a slice.

    XLA's partitioner pads shards incorrectly, fails or aborts. This affects interior padding if the
    result has fewer tiles than there are devices, or if the low padding is negative. It affects
    negative padding if the result is sharded and the operand is not.

    Shown by: pad_interior_of_few_tiles, pad_interior_cut, pad_cut_of_tiles.
    """
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, interior = (integers_of(operation, name) for name in names)
    if not b.target.is_partitioned or is_manual(operation):
        return None
    value, filling = operation.operands
    shape = b.array_of(value)
    if not (any(interior) or min(*low, *high, 0, 0) < 0) or not shape.is_static:
        return None
    if 0 in shape.dimensions:
        return [b.spread(filling, b.array_of(operation.results[0]))]
    if any(interior):
        value = _spaced(b, value, filling, interior)
        # The padding behind the last element of a dimension is not interior.
        high = [number - extra for number, extra in zip(high, interior, strict=True)]
    if max(*low, *high) > 0:
        value = b.padded(value, filling, *([max(n, 0) for n in edge] for edge in (low, high)))
    if min(*low, *high) < 0:
        sizes = b.array_of(value).dimensions
        limits = [size + min(number, 0) for size, number in zip(sizes, high, strict=True)]
        value = b.sliced(value, [-min(number, 0) for number in low], limits)
    return [value]


def _spaced(b: OpBuilder, value: Value, filling: Value, interior: Sequence[int]) -> Value:
    """Add padding behind each element: [n] becomes [n, 1], [n, 1 + extra] and [n * (1 + extra)]."""
    sizes = b.array_of(value).dimensions
    value = b.reshaped(value, [size for n in sizes for size in (n, 1)])
    high = [number for extra in interior for number in (0, extra)]
    value = b.padded(value, filling, [0] * len(high), high)
    return b.reshaped(value, [n * (1 + extra) for n, extra in zip(sizes, interior, strict=True)])
