"""Remove conversions between full arrays and their shards from programs for one partition."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from lowering.errors import CompileError
from lowering.legalize.registry import Target, Value
from lowering.mlir.operations import place_of

SHAPE_CONVERSIONS: Final = {
    "SPMDFullToShardShape": "spmd_full_to_shard_shape",
    "SPMDShardToFullShape": "spmd_shard_to_full_shape",
}
"""For each custom call that converts a shape, by its target: the op that records the call."""


def replace_shape_conversion(
    target: Target, operation: ir.Operation, call_target: str
) -> list[Value] | None:
    """Replace a shape conversion by its operand if there is one partition.

    XLA does not support the conversion in such a program. Return None if there are several
    partitions.

    Raises:
        CompileError: there is one partition, and the operand and the result differ in size.
    """
    if target.num_partitions > 1:
        return None
    before, after = operation.operands[0].type, operation.results[0].type
    if before != after:
        op = SHAPE_CONVERSIONS[call_target]
        raise CompileError(
            f"{op}{place_of(operation)} requires a program "
            f"that XLA partitions, got num_partitions=1, operand {before}, result {after}",
            context=("compile", target.name),
            fix="call lowering.compile(computation, num_partitions=N), where N is the number of "
            "devices in the sharding",
            op=op,
        )
    return list(operation.operands)
