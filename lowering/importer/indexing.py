"""Slices and updates at places known only when it runs, gathers, scatters."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope, failure
from lowering.stablehlo.attribute_codecs import reader_of


@importer("stablehlo.dynamic_slice")
def dynamic_slice(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    source, *starts = operands
    return xb.dynamic_slice(source, starts, scope.attribute(operation, "slice_sizes"))


@importer("stablehlo.dynamic_update_slice")
def dynamic_update_slice(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    source, update, *starts = operands
    return xb.dynamic_update_slice(source, update, starts)


_gather_numbers = reader_of("gather", "dimension_numbers")
_scatter_numbers = reader_of("scatter", "dimension_numbers")


@importer("stablehlo.gather")
def gather(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    source, indices = operands
    numbers = scope.read(operation, "dimension_numbers", _gather_numbers)
    sizes = scope.attribute(operation, "slice_sizes")
    are_sorted = scope.attribute(operation, "indices_are_sorted", False)
    return xb.gather(source, indices, numbers, sizes, are_sorted)


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


@importer("stablehlo.scatter")
def scatter(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    count = len(operands) // 2
    found = xb.scatter(
        operands[:count],
        operands[count],
        operands[count + 1 :],
        scope.computation(),
        scope.read(operation, "scatter_dimension_numbers", _scatter_numbers),
        scope.attribute(operation, "indices_are_sorted", False),
        scope.attribute(operation, "unique_indices", False),
    )
    return found if count == 1 else scope.elements(operation, found)
