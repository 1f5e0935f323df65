"""Shardings of values in Shardy's dialect."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp, with_metadata
from lowering.importer.failures import failure
from lowering.importer.registry import importer
from lowering.importer.scope import Scope


@importer("sdy.sharding_constraint")
def sharding_constraint(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record the custom call that XLA converts the operation to."""
    if "sdy.sharding" in operation.attributes:
        raise failure(operation, "it has two shardings, sharding and sdy.sharding")
    call = xb.custom_call("Sharding", operands, operands[0].shape)
    call.metadata = with_metadata(call.metadata, sharding=str(operation.attributes["sharding"]))
    return call
