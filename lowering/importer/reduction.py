"""Reductions, windows and sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope


@importer("stablehlo.reduce")
def reduce(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    dimensions = scope.attribute(operation, "dimensions")
    found = xb.reduce(*_with_inits(operands), scope.computation(), dimensions)
    return scope.results(operation, found)


def _with_inits(operands: list[XlaOp]) -> tuple[Any, Any]:
    """The arrays and the values that their folding begins with: each by itself if it is one."""
    if len(operands) == 2:
        return operands[0], operands[1]
    half = len(operands) // 2
    return operands[:half], operands[half:]


@importer("stablehlo.map")
def map_(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.map(operands, scope.computation(), scope.attribute(operation, "dimensions"))


def _padding(scope: Scope, operation: ir.Operation, rank: int) -> Sequence[Sequence[int]]:
    pairs = scope.attribute(operation, "padding")
    return [(0, 0)] * rank if pairs is None else pairs.tolist()


@importer("stablehlo.reduce_window")
def reduce_window(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    sizes = scope.attribute(operation, "window_dimensions")
    found = xb.reduce_window(
        *_with_inits(operands),
        scope.computation(),
        sizes,
        scope.attribute(operation, "window_strides"),
        _padding(scope, operation, len(sizes)),
        base_dilations=scope.attribute(operation, "base_dilations"),
        window_dilations=scope.attribute(operation, "window_dilations"),
    )
    return scope.results(operation, found)


@importer("stablehlo.select_and_scatter")
def select_and_scatter(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    operand, source, init = operands
    assert isinstance(operand.shape, ArrayShape)  # MLIR's verifier has said so
    sizes = scope.attribute(operation, "window_dimensions", (1,) * operand.shape.rank)
    strides = scope.attribute(operation, "window_strides")
    padding = _padding(scope, operation, len(sizes))
    select, scatter = scope.computation(0), scope.computation(1)
    return xb.select_and_scatter(operand, select, sizes, strides, padding, source, init, scatter)


@importer("stablehlo.sort")
def sort(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    dimension = scope.attribute(operation, "dimension", -1)
    is_stable = scope.attribute(operation, "is_stable", False)
    arrays = operands[0] if len(operands) == 1 else operands
    found = xb.sort(arrays, scope.computation(), dimension, is_stable)
    return scope.results(operation, found)


@importer("chlo.top_k", "mhlo.topk")
def top_k(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    k, largest = scope.attribute(operation, "k"), scope.attribute(operation, "largest", True)
    return scope.elements(operation, xb.top_k(operands[0], k, largest=largest))


@importer("chlo.scan", "mhlo.scan")
def scan(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    inputs, _ = scope.attribute(operation, "operandSegmentSizes")
    found = xb.scan(
        operands[:inputs],
        operands[inputs:],
        scope.computation(),
        scope.attribute(operation, "dimension"),
        scope.attribute(operation, "scan_dim_size"),
        is_reverse=scope.attribute(operation, "is_reverse", False),
        is_associative=scope.attribute(operation, "is_associative"),
    )
    return scope.elements(operation, found)
