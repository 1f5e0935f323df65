"""Rewrites of paddings that XLA partitions incorrectly."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir

from builder.types.shape import intern_array
from lowering.legalize.op_builder import OpBuilder, integers_of
from lowering.legalize.partitions import is_manual
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite


@rewrite("stablehlo.pad", platforms=ALL_PLATFORMS)
def padding_of_partitions(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace interior padding by padding of added dimensions, and negative padding by a slice.

    XLA's partitioner pads shards incorrectly, fails or aborts. This affects interior padding if the
    result has fewer tiles than there are devices, or if the low padding is negative. It affects
    negative padding if the result is sharded and the operand is not. Bounded dimensions are padded
    first, because XLA does not partition them.

    Shown by: pad_interior_of_few_tiles, pad_interior_cut, pad_cut_of_tiles,
    pad_cut_beside_a_bounded_size.
    """
    if not b.target.is_partitioned or is_manual(operation):
        return None
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    paddings = [integers_of(operation, name) for name in names]
    value, filling = operation.operands
    shape, result = b.array_of(value), b.array_of(operation.results[0])
    bounded = [d for d in range(shape.rank) if shape.dynamic_dimensions[d]]
    low, high, interior = (_without(padding, bounded) for padding in paddings)
    if not (any(interior) or min(*low, *high, 0, 0) < 0):
        return None
    if 0 in shape.dimensions:
        return [b.spread(filling, result)] if shape.is_static else None
    if any(padding[d] for padding in paddings for d in bounded):
        fixed = [d for d in range(shape.rank) if d not in bounded]
        attributes = {n: _without(p, fixed) for n, p in zip(names, paddings, strict=True)}
        sizes = list(shape.dimensions)
        for d in bounded:
            sizes[d] = result.dimensions[d]
        padded = intern_array(shape.element_type, tuple(sizes), shape.dynamic_dimensions)
        value = b("pad", padded, [value, filling], attributes)
    return [b.on_fixed_sizes([value], lambda v: _padded(b, v, filling, low, high, interior))]


def _without(padding: Sequence[int], dimensions: Sequence[int]) -> list[int]:
    """Return numbers of a padding, with 0 for some dimensions."""
    return [0 if d in dimensions else number for d, number in enumerate(padding)]


def _padded(
    b: OpBuilder,
    value: Value,
    filling: Value,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
) -> Value:
    """Pad an array of fixed sizes without interior or negative padding."""
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
    return value


def _spaced(b: OpBuilder, value: Value, filling: Value, interior: Sequence[int]) -> Value:
    """Add padding behind each element: [n] becomes [n, 1], [n, 1 + extra] and [n * (1 + extra)]."""
    sizes = b.array_of(value).dimensions
    value = b.reshaped(value, [size for n in sizes for size in (n, 1)])
    high = [number for extra in interior for number in (0, extra)]
    value = b.padded(value, filling, [0] * len(high), high)
    return b.reshaped(value, [n * (1 + extra) for n, extra in zip(sizes, interior, strict=True)])
