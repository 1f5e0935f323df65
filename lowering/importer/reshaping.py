"""Broadcasts, reshapes, slices and the like."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.ops.operands import broadcast_to
from builder.shape_inference import reshaping as infer
from builder.types.shape import ArrayShape
from lowering.importer.by_schema import schema_importer
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope


def _result(scope: Scope, operation: ir.Operation) -> ArrayShape:
    shape = scope.result_shape(operation)
    assert isinstance(shape, ArrayShape)  # MLIR's verifier has said so
    return shape


@importer("stablehlo.broadcast_in_dim")
def broadcast_in_dim(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    result = _result(scope, operation)
    sizes = result.dimensions
    places = scope.attribute(operation, "broadcast_dimensions")
    source = operands[0]
    ascending = tuple(sorted(places))
    if places != ascending:  # which StableHLO does not ask for
        source = xb.transpose(source, [places.index(place) for place in ascending])
    if not result.is_static and infer.broadcast_in_dim(source.shape, sizes, ascending) != result:
        # What stands beside an array of bounded sizes is broadcast to its type; the sizes are the
        # bounds.
        return broadcast_to(source, result, ascending)
    return xb.broadcast_in_dim(source, sizes, ascending)


@importer("stablehlo.broadcast")
def broadcast(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.broadcast(operands[0], scope.attribute(operation, "broadcast_sizes"))


@importer("stablehlo.reshape")
def reshape(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    source, shape = operands[0], _result(scope, operation)
    sizes = shape.dimensions
    if source.shape.is_static or infer.reshape(source.shape, sizes) is shape:
        return xb.reshape(source, sizes)
    # A bounded dimension is split, and the type says which of the parts is the bounded one.
    bounded = shape.dynamic_dimensions
    inferred = bounded.index(True) if True in bounded else -1
    return xb.reshape_with_inferred_dimension(source, sizes, inferred)


_slice = schema_importer("slice")


@importer("stablehlo.slice")
def slice_(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    source = operands[0].shape
    if isinstance(source, ArrayShape) and not source.is_static:
        result = _result(scope, operation)
        sizes = zip(
            source.dynamic_dimensions,
            result.dynamic_dimensions,
            result.dimensions,
            strict=True,
        )
        is_fixed = any(was and not now and size > 1 for was, now, size in sizes)
        starts, strides = (
            scope.attribute(operation, name) for name in ("start_indices", "strides")
        )
        if is_fixed and not any(starts) and set(strides) == {1}:
            # What `top_k` becomes: the first values of what was sorted. By inference a slice of a
            # bounded size is bounded; `dynamic_slice` gives the size that is asked for.
            zero = scope.builder.constant(0, xb.s32)
            return xb.dynamic_slice(operands[0], [zero] * source.rank, result.dimensions)
    return _slice(scope, operation, operands)
