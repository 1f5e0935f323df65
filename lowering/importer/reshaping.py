"""Importers of broadcasts, reshapes and slices."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder import shape_inference as infer
from builder.graph.xla_op import XlaOp
from builder.ops.operands import broadcast_to
from builder.types.shape import UNBOUNDED, ArrayShape
from lowering.importer.by_schema import schema_importer
from lowering.importer.registry import importer
from lowering.importer.scope import Scope


@importer("stablehlo.broadcast_in_dim")
def broadcast_in_dim(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a broadcast; transpose the operand first if the dimensions are not in ascending order,
    which the public op requires."""
    result = scope.result_array(operation)
    sizes = result.dimensions
    dimensions = scope.attribute(operation, "broadcast_dimensions")
    (operand,) = operands
    ascending = tuple(sorted(dimensions))
    if dimensions != ascending:
        operand = xb.transpose(operand, list(map(dimensions.index, ascending)))
    if not result.is_static and infer.broadcast_in_dim(operand.shape, sizes, ascending) != result:
        # An operand of an op on bounded sizes is broadcast to the bounds, and bounded then.
        return broadcast_to(operand, result, ascending)
    return xb.broadcast_in_dim(operand, sizes, ascending)


@importer("stablehlo.broadcast")
def broadcast(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.broadcast(operands[0], scope.attribute(operation, "broadcast_sizes"))


@importer("stablehlo.reshape")
def reshape(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a reshape to the sizes of the result."""
    source, shape = operands[0], scope.result_array(operation)
    sizes = shape.dimensions
    if source.shape.is_static or infer.reshape(source.shape, sizes) is shape:
        return xb.reshape(source, sizes)
    # A bounded dimension is split; the result type has the bounded part.
    bounded = shape.dynamic_dimensions
    inferred = bounded.index(True) if True in bounded else -1
    return xb.reshape_with_inferred_dimension(source, sizes, inferred)


_slice = schema_importer("slice")


@importer("stablehlo.slice")
def slice_(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a slice, or a dynamic_slice if a bounded dimension becomes static.

    The decomposition of top_k has slices from a bounded to a static size. The shape inference of
    `xb.slice` would infer a bounded size.
    """
    source = operands[0].shape
    if isinstance(source, ArrayShape) and not source.is_static:
        result = scope.result_array(operation)
        becomes_static = any(
            was_dynamic and bound != UNBOUNDED and not is_dynamic and size > 1
            for was_dynamic, bound, is_dynamic, size in zip(
                source.dynamic_dimensions,
                source.dimensions,
                result.dynamic_dimensions,
                result.dimensions,
                strict=True,
            )
        )
        starts = scope.attribute(operation, "start_indices")
        strides = scope.attribute(operation, "strides")
        if becomes_static and not any(starts) and set(strides) == {1}:
            zero = scope.builder.constant(0, xb.s32)
            return xb.dynamic_slice(operands[0], [zero] * source.rank, result.dimensions)
    return _slice(scope, operation, operands)
