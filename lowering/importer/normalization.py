"""Batch normalization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope

_OPS: Final[dict[str, Callable[..., XlaOp]]] = {
    "stablehlo.batch_norm_grad": xb.batch_norm_grad,
    "stablehlo.batch_norm_inference": xb.batch_norm_inference,
    "stablehlo.batch_norm_training": xb.batch_norm_training,
}


@importer(*_OPS)
def batch_norm(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    epsilon, place = (scope.attribute(operation, name) for name in ("epsilon", "feature_index"))
    found = _OPS[operation.name](*operands, epsilon, place)
    return found if len(operation.results) == 1 else scope.elements(operation, found)
