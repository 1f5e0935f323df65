"""How arrays lie on several devices, out of Shardy's dialect."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp, with_metadata
from lowering.importer.failures import failure
from lowering.importer.registry import importer
from lowering.importer.scope import Scope

__all__: list[str] = []


@importer("sdy.sharding_constraint")
def sharding_constraint(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """What XLA makes of it: a call that gives its operand, with the sharding."""
    if "sdy.sharding" in operation.attributes:
        raise failure(operation, "it has a sharding besides the one that it is about")
    found = xb.custom_call("Sharding", operands, operands[0].shape)
    found.metadata = with_metadata(found.metadata, sharding=str(operation.attributes["sharding"]))
    return found
