"""Shardy's sharding constraints and manual computations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp, with_metadata
from builder.types.shape import Shape, TupleShape
from lowering.ops.importing import failure, flat_values
from lowering.ops.registry import importer
from lowering.sharding.frontend_shardings import (
    FROM_SHARDS,
    IN_SHARDINGS,
    MANUAL_AXES,
    OUT_SHARDINGS,
    TO_SHARDS,
)

if TYPE_CHECKING:
    from lowering.importer.scope import Scope


@importer("sdy.sharding_constraint")
def import_sharding_constraint(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> XlaOp:
    """Record the custom call "Sharding", to which XLA converts a sharding constraint."""
    if "sdy.sharding" in operation.attributes:
        raise failure(operation, "only one sharding is supported", got="sharding and sdy.sharding")
    call = xb.custom_call("Sharding", operands, operands[0].shape)
    call.metadata = with_metadata(call.metadata, sharding=str(operation.attributes["sharding"]))
    return call


@importer("sdy.manual_computation")
def import_manual_computation(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> XlaOp:
    """Record a call of the body between two custom calls, as XLA converts a manual computation."""
    if not len(operation.results):
        raise failure(operation, "a manual_computation must have a result")
    body = scope.computation()
    values = operands
    if operands:
        parameters = body.program_shape.parameters
        values = [
            *flat_values(_converted(operation, TO_SHARDS, IN_SHARDINGS, operands, parameters))
        ]
    called = scope.call(body, values)
    called.metadata = with_metadata(called.metadata, frontend_attributes={"inlineable": "false"})
    shapes = [scope.tables.shape(result.type) for result in operation.results]
    return _converted(operation, FROM_SHARDS, OUT_SHARDINGS, [*flat_values(called)], shapes)


def _converted(
    operation: ir.Operation,
    target: str,
    shardings: str,
    operands: Sequence[XlaOp],
    shapes: Sequence[Shape],
) -> XlaOp:
    """Record the custom call that converts arrays to shards, or shards to arrays.

    The frontend attributes of the custom call are the shardings and the axes of the manual
    computation.
    """
    shape = shapes[0] if len(shapes) == 1 else TupleShape(shapes)
    call = xb.custom_call(target, operands, shape, has_side_effect=True)
    attributes = {
        name: str(operation.attributes[name.rpartition(".")[2]])
        for name in (shardings, MANUAL_AXES)
    }
    call.metadata = with_metadata(call.metadata, frontend_attributes=attributes)
    return call
