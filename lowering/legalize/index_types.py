"""A rewrite of operations whose index type is too narrow for the size of an indexed dimension."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite


@rewrite("stablehlo.dynamic_update_slice", "stablehlo.scatter", platforms=ALL_PLATFORMS)
def updates_at_narrow_indices(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Convert indices to s32, or to s64, if a dimension is larger than their type's maximum.

    XLA computes the last valid index in the type of the indices, and the number wraps: for u8 and
    257 rows it is 0, for s8 and 130 rows -127. jaxlib 0.10 updates other elements, or writes
    outside of the buffer, and drops updates of a scatter. 0.12 does so in a loop whose counter is
    the index.

    Shown by: dynamic_update_slice_at_u8, dynamic_update_slice_in_a_loop_at_u8, scatter_at_u8.
    """
    count = len(operation.operands)
    is_scatter = operation.name == "stablehlo.scatter"
    places = [count // 2] if is_scatter else range(2, count)
    array = b.shape(operation.operands[0])
    if array is None or not places:
        return None
    longest = max(array.dimensions, default=0)
    index_type = b.array_of(operation.operands[places[0]]).element_type
    if longest <= index_type.max:
        return None
    to = pt.s32 if longest <= pt.s32.max else pt.s64
    for place in places:
        operation.operands[place] = b.converted(operation.operands[place], to)
    return operation.results
