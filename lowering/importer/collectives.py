"""Importers of collectives whose schema does not determine all arguments of the public op."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.by_schema import schema_importer
from lowering.importer.failures import failure
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope
from lowering.stablehlo.schema_attributes import reader_of

_replica_groups = reader_of("all_reduce", "replica_groups")
_all_gather = schema_importer("all_gather", "shard_count")
_reduce_scatter = schema_importer("reduce_scatter", "shard_count")
_all_to_all = schema_importer("all_to_all")


@importer("stablehlo.all_gather")
def all_gather(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    dimension = scope.attribute(operation, "all_gather_dim")
    shard = _size(operands[0].shape, dimension)
    gathered = _size(scope.result_shape(operation), dimension)
    count = _shard_count(operation, shard, gathered)
    return _all_gather(scope, operation, operands, shard_count=count)


@importer("stablehlo.reduce_scatter")
def reduce_scatter(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    dimension = scope.attribute(operation, "scatter_dimension")
    reduced = _size(operands[0].shape, dimension)
    shard = _size(scope.result_shape(operation), dimension)
    count = _shard_count(operation, shard, reduced)
    return _reduce_scatter(scope, operation, operands, shard_count=count)


def _size(shape: Any, dimension: int) -> int:
    assert isinstance(shape, ArrayShape)  # verified by MLIR
    return shape.dimensions[dimension]


def _shard_count(operation: ir.Operation, shard: int, total: int) -> int:
    """Return the number of shards, which is not an attribute in StableHLO."""
    if shard:
        return total // shard
    groups = _replica_groups(operation.attributes["replica_groups"]).groups
    if not groups:
        raise failure(
            operation,
            "replica_groups must not be empty, because empty arrays do not imply the shard count",
        )
    return len(groups[0])


@importer("stablehlo.cross-replica-sum")
def cross_replica_sum(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.cross_replica_sum(
        operands[0], _replica_groups(operation.attributes["replica_groups"])
    )


@importer("stablehlo.all_to_all")
def all_to_all(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record one op per operand, because the public op takes one operand."""
    return [_all_to_all(scope, operation, [operand]) for operand in operands]
