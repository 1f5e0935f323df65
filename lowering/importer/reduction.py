"""Reductions, windows and sorts."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.by_schema import schema_importer
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope

_reduce_window = schema_importer("reduce_window")


@importer("stablehlo.reduce_window")
def reduce_window(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record a windowed reduction; the padding may be absent, and depends on the rank then."""
    rank = len(scope.attribute(operation, "window_dimensions"))
    padding = [(0, 0)] * rank
    return _reduce_window(scope, operation, operands, window_strides=None, padding=padding)


@importer("stablehlo.select_and_scatter")
def select_and_scatter(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a select_and_scatter, whose public op does not take its operands first."""
    operand, source, init = operands
    assert isinstance(operand.shape, ArrayShape)  # verified by MLIR
    sizes = scope.attribute(operation, "window_dimensions", (1,) * operand.shape.rank)
    strides = scope.attribute(operation, "window_strides")
    padding = scope.attribute(operation, "padding")
    pairs = [(0, 0)] * len(sizes) if padding is None else padding.tolist()
    select, scatter = scope.computation(0), scope.computation(1)
    return xb.select_and_scatter(operand, select, sizes, strides, pairs, source, init, scatter)


_top_k = schema_importer("top_k")


@importer("mhlo.topk")
def top_k(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record a top_k, whose operation in CHLO has no attribute `largest`."""
    return _top_k(scope, operation, operands, largest=scope.attribute(operation, "largest", True))


@importer("chlo.scan", "mhlo.scan")
def scan(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
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
