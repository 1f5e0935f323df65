"""Importers of top_k and scan, which are operations of MHLO and CHLO."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.by_schema import schema_importer
from lowering.importer.registry import importer
from lowering.importer.scope import Scope

_top_k = schema_importer("top_k")


@importer("mhlo.topk")
def top_k(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a top_k. CHLO's top_k has no attribute `largest`, whose default is true."""
    return _top_k(scope, operation, operands, largest=scope.attribute(operation, "largest", True))


@importer("chlo.scan", "mhlo.scan")
def scan(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a scan. No importer is derived: the schema describes the loop that `lower` emits."""
    inputs, carries = scope.attribute(operation, "operandSegmentSizes")
    dimension = scope.attribute(operation, "dimension")
    size = scope.attribute(operation, "scan_dim_size")
    if size is None and not inputs and len(operation.results) > carries:  # from HLO
        output = scope.result_shape(operation)
        assert isinstance(output, ArrayShape)
        size = output.dimensions[dimension]
    return xb.scan(
        operands[:inputs],
        operands[inputs:],
        scope.computation(),
        dimension,
        size,
        is_reverse=scope.attribute(operation, "is_reverse", False),
        is_associative=scope.attribute(operation, "is_associative"),
    )
