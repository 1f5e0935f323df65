"""Gathers that have an operation of their own in StableHLO."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.failures import failure
from lowering.importer.registry import importer
from lowering.importer.scope import Scope


@importer("stablehlo.torch_index_select")
def torch_index_select(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """A gather of slices that are one thick along `dim`, which is all that this operation is."""
    dim, batch = (scope.attribute(operation, name) for name in ("dim", "batch_dims"))
    source, index = operands
    assert isinstance(source.shape, ArrayShape)  # MLIR's verifier has said so
    assert isinstance(index.shape, ArrayShape)
    if not 0 <= batch <= dim < source.shape.rank or batch > index.shape.rank:
        raise failure(operation, f"its dim is {dim} and its batch_dims {batch}, out of range")
    batching, extra = range(batch), index.shape.rank - batch
    numbers = xb.GatherDimensionNumbers(
        (*range(batch, dim), *range(dim + extra, source.shape.rank - 1 + extra)),
        (dim,),
        (dim,),
        index.shape.rank,
        tuple(batching),
        tuple(batching),
    )
    alone = {*batching, dim}
    sizes = [1 if d in alone else size for d, size in enumerate(source.shape.dimensions)]
    return xb.gather(source, index, numbers, sizes)
