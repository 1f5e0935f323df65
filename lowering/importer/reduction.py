"""Windowed reductions, top_k and scans."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.by_schema import schema_importer
from lowering.importer.registry import importer
from lowering.importer.scope import Scope

_reduce_window = schema_importer("reduce_window")
_top_k = schema_importer("top_k")


@importer("stablehlo.reduce_window")
def reduce_window(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a reduce_window, whose strides and padding may be absent."""
    padding = [(0, 0)] * len(scope.attribute(operation, "window_dimensions"))
    return _reduce_window(scope, operation, operands, window_strides=None, padding=padding)


@importer("stablehlo.select_and_scatter")
def select_and_scatter(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a select_and_scatter: attributes may be absent, and the public op does not take the
    operands first."""
    operand, source, init_value = operands
    assert isinstance(operand.shape, ArrayShape)  # verified by MLIR
    rank = operand.shape.rank
    padding = scope.attribute(operation, "padding")
    return xb.select_and_scatter(
        operand,
        scope.computation(0),
        scope.attribute(operation, "window_dimensions", (1,) * rank),
        scope.attribute(operation, "window_strides"),
        [(0, 0)] * rank if padding is None else padding.tolist(),
        source,
        init_value,
        scope.computation(1),
    )


@importer("mhlo.topk")
def top_k(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a top_k; CHLO's operation has no attribute `largest`."""
    return _top_k(scope, operation, operands, largest=scope.attribute(operation, "largest", True))


@importer("chlo.scan", "mhlo.scan")
def scan(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a scan, whose schema is that of the loop that it is lowered to."""
    inputs, _ = scope.attribute(operation, "operandSegmentSizes")
    return xb.scan(
        operands[:inputs],
        operands[inputs:],
        scope.computation(),
        scope.attribute(operation, "dimension"),
        scope.attribute(operation, "scan_dim_size"),
        is_reverse=scope.attribute(operation, "is_reverse", False),
        is_associative=scope.attribute(operation, "is_associative"),
    )
