"""Operations across devices."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import builder as xb
from builder.attributes import ChannelHandle
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope, failure


@importer("stablehlo.replica_id")
def replica_id(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return scope.builder.replica_id()


@importer("stablehlo.partition_id")
def partition_id(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return scope.builder.partition_id()


Groups = tuple[tuple[int, ...], ...]


def _rows(scope: Scope, operation: ir.Operation, name: str) -> Groups:
    """Rows of numbers, of which short ones are filled up with -1."""
    table = scope.attribute(operation, name)
    if not isinstance(table, np.ndarray):
        raise failure(operation, f"its {name} must be a table of numbers, got {table}")
    if not table.size:  # of rows without numbers there may be more than can be listed
        return ()
    return tuple(tuple(n for n in row if n != -1) for row in table.tolist())


def _groups(scope: Scope, operation: ir.Operation) -> Groups:
    return tuple(row for row in _rows(scope, operation, "replica_groups") if row)


def _channel(scope: Scope, operation: ir.Operation) -> ChannelHandle | None:
    """The channel; numbers below 1 say that there is none.

    StableHLO: Collective ops.
    """
    said = scope.attribute(operation, "channel_handle")
    if said is None:
        return None
    handle: int = stablehlo.ChannelHandle(said).handle
    return ChannelHandle(handle) if handle > 0 else None


def participants(scope: Scope, operation: ir.Operation) -> dict[str, Any]:
    """Which devices take part in an operation across devices, as the ops take it."""
    return {
        "replica_groups": _groups(scope, operation),
        "channel_id": _channel(scope, operation),
    }


def _reducing(scope: Scope, operation: ir.Operation) -> dict[str, Any]:
    of_devices = bool(scope.attribute(operation, "use_global_device_ids", False))
    return {**participants(scope, operation), "use_global_device_ids": of_devices}


def _alone(operands: list[XlaOp]) -> Any:
    return operands[0] if len(operands) == 1 else operands


def _shard_count(
    scope: Scope, operation: ir.Operation, small: int, large: int, groups: Groups
) -> int:
    """How many parts the larger size has of the smaller one; of empty ones the groups say it."""
    if small:
        return large // small
    if not groups:
        raise failure(operation, "its arrays are empty, and no groups say how many take part")
    return len(groups[0])


def _size(shape: Any, dimension: int) -> int:
    assert isinstance(shape, ArrayShape)  # MLIR's verifier has said so
    return shape.dimensions[dimension]


@importer("stablehlo.all_reduce")
def all_reduce(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    given = _reducing(scope, operation)
    found = xb.all_reduce(_alone(operands), scope.computation(), **given)
    return scope.results(operation, found)


@importer("stablehlo.cross-replica-sum")
def cross_replica_sum(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.cross_replica_sum(operands[0], _groups(scope, operation))


@importer("stablehlo.all_gather")
def all_gather(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    given = _reducing(scope, operation)
    dimension = scope.attribute(operation, "all_gather_dim")
    small = _size(operands[0].shape, dimension)
    large = _size(scope.result_shape(operation), dimension)
    count = _shard_count(scope, operation, small, large, given["replica_groups"])
    return scope.results(operation, xb.all_gather(_alone(operands), dimension, count, **given))


@importer("stablehlo.reduce_scatter")
def reduce_scatter(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    given = _reducing(scope, operation)
    dimension = scope.attribute(operation, "scatter_dimension")
    large = _size(operands[0].shape, dimension)
    small = _size(scope.result_shape(operation), dimension)
    count = _shard_count(scope, operation, small, large, given["replica_groups"])
    return xb.reduce_scatter(operands[0], scope.computation(), dimension, count, **given)


@importer("stablehlo.all_to_all")
def all_to_all(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Of several operands each is exchanged by itself."""
    names = ("split_dimension", "concat_dimension", "split_count")
    numbers = [scope.attribute(operation, name) for name in names]
    given = participants(scope, operation)
    found = [xb.all_to_all(operand, *numbers, **given) for operand in operands]
    return found[0] if len(found) == 1 else found


@importer("stablehlo.collective_permute")
def collective_permute(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    pairs = scope.attribute(operation, "source_target_pairs").tolist()
    return xb.collective_permute(operands[0], pairs, _channel(scope, operation))


@importer("stablehlo.collective_broadcast")
def collective_broadcast(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.collective_broadcast(operands[0], **participants(scope, operation))
