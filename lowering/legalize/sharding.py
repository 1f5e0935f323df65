"""The change from whole arrays to parts, and back, where a program is not partitioned."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from lowering.errors import CompileError, recorded_at
from lowering.legalize.registry import Target, Value

__all__ = ["CHANGES", "check_partitioned"]

CHANGES: Final = {
    "SPMDFullToShardShape": "spmd_full_to_shard_shape",
    "SPMDShardToFullShape": "spmd_shard_to_full_shape",
}
"""The targets of the calls that XLA's partitioner takes out, and the ops that record them."""


def check_partitioned(
    target: Target, operation: ir.Operation, call_target: str
) -> list[Value] | None:
    """Takes a change of shapes out where nothing is cut up; XLA has no code for it there.

    Raises:
        CompileError: it is an array of other sizes, and there is one partition.
    """
    if target.num_partitions > 1:
        return None
    before, after = operation.operands[0].type, operation.results[0].type
    if before != after:
        op = CHANGES[call_target]
        raise CompileError(
            f"compile: {target.name}: {op}{recorded_at(operation.location)} is of a program that "
            f"XLA partitions, got num_partitions=1, for {before} and {after}\n"
            f"fix: lowering.compile(computation, num_partitions=N), for the N devices of its "
            f"sharding",
            op=op,
        )
    return list(operation.operands)
