"""A rewrite of the CHLO operations that broadcast their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jaxlib.mlir import ir

from lowering.legalize.op_builder import OpBuilder, integers_of
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite

BROADCASTING: Final = (
    *("add", "atan2", "compare", "divide", "maximum", "minimum", "multiply", "power"),
    *("remainder", "select", "subtract"),
)
"""StableHLO operations that have rewrites, and a CHLO counterpart that broadcasts its operands."""


@rewrite(*(f"chlo.broadcast_{name}" for name in BROADCASTING), platforms=ALL_PLATFORMS)
def broadcasting_of_chlo(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Broadcast the operands, and apply the operation of StableHLO.

    XLA does the same when it reads the module. So its defects in operations of StableHLO affect
    these operations of CHLO too, but the rewrites for the defects match only StableHLO.

    Shown by: chlo_broadcast_divide_by_zero, chlo_broadcast_power_s32_odd_64.
    """
    (result,) = operation.results
    target = b.shape(result)
    if target is None:
        return None
    operands = []
    for operand in operation.operands:
        shape = b.array_of(operand)
        sizes = shape.dimensions, shape.dynamic_dimensions
        if sizes != (target.dimensions, target.dynamic_dimensions):
            if not (shape.is_static and target.is_static):
                return None
            places: Sequence[int] = range(target.rank - shape.rank, target.rank)
            if shape.rank < target.rank:
                places = integers_of(operation, "broadcast_dimensions", places)
            operand = b.spread(operand, target, places)
        operands.append(operand)
    # The enum attributes of CHLO have the same cases as those of StableHLO.
    attributes = {
        name: str(operation.attributes[name]).replace("#chlo<", "#stablehlo<")
        for name in ("comparison_direction", "compare_type")
        if name in operation.attributes
    }
    name = operation.name.removeprefix("chlo.broadcast_")
    return [b(name, result.type, operands, attributes)]
